// Connects the blocks of operators with the calls, the records and the notices of a gateway.
import { join } from 'node:path'
import { identity, resolve, resolveOptional, services, tokens } from '@svc/core'
import type { InsertedStage } from '@svc/core/pipeline'
import { MemoryBoard } from '@svc/core/store'
import type { BlockList } from '../blocks/block.js'
import { Blocks } from '../blocks/blocks.js'
import { BlocksFile } from '../blocks/kept-blocks.js'
import { type BlockingGateway, type BlockJournal, reportStep } from '../blocks/operations.js'
import { blockStage, stopIfBlocked } from '../blocks/stage.js'
import { StoreClock } from '../blocks/store-clock.js'
import { gatewayMetrics } from '../metrics/gateway-metrics.js'
import { storeClockMetrics } from '../metrics/metric-table.js'
import type { GatewayBuilder } from './builder.js'
import type { Policies } from './policies.js'

export interface GatewayBlocks extends BlockingGateway {
  readonly stage: InsertedStage
  warnings(): string[]
  /** The stage in its place, for another list. */
  stageFor(list: BlockList): InsertedStage
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
      const board = resolveOptional(policies().current.container, services.board)
      if (typeof board === 'function') return board()
      if (board === undefined) return new MemoryBoard(clock)
      const { LmdbBoard } = await import('@svc/core/lmdb')
      return new LmdbBoard(board.dir, clock)
    },
    timed: (time, asked) => storeClock.compare(time, asked),
    changed(list) {
      for (const call of policies().calls()) stopIfBlocked(call, list)
    },
    ended: (block) => void reportStep('expire', block, journal),
  })
  const placed = (current: () => BlockList | undefined): InsertedStage => ({
    name: 'blocks',
    stage: blockStage(current, () => blocks.error ?? ''),
    within: identity,
  })
  const allowsCallsWithoutStore = () =>
    resolveOptional(policies().current.container, services.allowsCallsWithoutStore) === true
  return {
    blocks,
    journal,
    warnings: () => [storeClock.warning()].filter((warning) => warning !== undefined),
    stage: placed(() => (blocks.isKnown || allowsCallsWithoutStore() ? blocks.list : undefined)),
    stageFor: (list) => placed(() => list),
  }
}
