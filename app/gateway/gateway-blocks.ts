// Connects the blocks of operators with the calls, the records and the notices of a gateway.
import { join } from 'node:path'
import { bind, resolve, resolveOptional, services, tokens } from '@svc/core'
import { MemoryKeyValueStore } from '@svc/core/store'
import { type BlockingGateway, type BlockJournal, reportStep } from '../admin/block-operations.js'
import { Blocks } from '../blocks/blocks.js'
import { Board } from '../blocks/board.js'
import { BlocksFile } from '../blocks/kept-blocks.js'
import { blockSource, stopIfBlocked } from '../blocks/stage.js'
import { StoreClock } from '../blocks/store-clock.js'
import { gatewayMetrics } from '../telemetry/metrics/gateway-metrics.js'
import { storeClockMetrics } from '../telemetry/metrics/metric-table.js'
import type { GatewayBuilder } from './builder.js'
import type { Policies } from './policies.js'

export interface GatewayBlocks extends BlockingGateway {
  warnings(): string[]
}

/** `policies` returns those of the gateway, once it has started. @throws {Error} if the last list cannot be read */
export function gatewayBlocks(
  builder: GatewayBuilder,
  stateDir: string,
  policies: () => Policies,
): GatewayBlocks {
  const { bindings, logger } = builder
  const clock = resolve(bindings, tokens.Clock)
  const ids = resolve(bindings, tokens.Ids)
  const journal: BlockJournal = {
    notices: builder.notices,
    record: async (event) => {
      const { container } = policies().current
      await resolveOptional(container, services.record)?.({ ...event, traceId: ids.traceId() })
    },
    unrecorded: (err) => logger.error({ err }, 'a block is in force and could not be recorded'),
  }
  resolveOptional(bindings, gatewayMetrics)?.declare(storeClockMetrics)
  const storeClock = new StoreClock({ clock, logger, meter: resolveOptional(bindings, tokens.Meter) })
  const blocks = new Blocks({
    clock,
    logger,
    file: new BlocksFile(join(stateDir, 'blocks.json')),
    open: async () => {
      const open = resolveOptional(policies().current.container, services.board)
      return new Board(open === undefined ? new MemoryKeyValueStore({ clock }) : await open())
    },
    allowsUnknown: () =>
      resolveOptional(policies().current.container, services.allowsCallsWithoutStore) === true,
    timed: (time, asked) => storeClock.compare(time, asked),
    changed(list) {
      for (const call of policies().calls()) stopIfBlocked(call, list)
    },
    ended: (block) => void reportStep('expire', block, journal),
  })
  bind(bindings, blockSource, { useValue: blocks })
  return {
    blocks,
    journal,
    warnings: () => [storeClock.warning()].filter((warning) => warning !== undefined),
  }
}
