// Connects the blocks of operators with the calls, the records and the notices of a gateway.
import { join } from 'node:path'
import {
  bind,
  type Clock,
  clockSkew,
  describeSkew,
  type Logger,
  type Meter,
  resolve,
  resolveOptional,
  services,
  tokens,
} from '@svc/core'
import { MemoryKeyValueStore } from '@svc/core/store'
import { type BlockingGateway, type BlockJournal, reportStep } from '../admin/block-operations.js'
import { Blocks } from '../blocks/blocks.js'
import { Board } from '../blocks/board.js'
import { BlocksFile } from '../blocks/kept-blocks.js'
import { blockSource, stopIfBlocked } from '../blocks/stage.js'
import { gatewayMetrics } from '../telemetry/metrics/gateway-metrics.js'
import { storeClockMetrics } from '../telemetry/metrics/metric-table.js'
import type { GatewayBuilder } from './builder.js'
import type { Policies } from './policies.js'

/** The difference that tokens and mandates tolerate by default, in milliseconds. */
const MAX_MS = 5_000
const METRIC: keyof typeof storeClockMetrics = 'svc_store_clock_skew_seconds'

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

interface StoreClockOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly meter?: Meter | undefined
}

/**
 * The clock of the store that all gateways share, compared with this one: limits and keys follow that of the store, and tokens
 * and records this one, so that a gateway whose clock is wrong has to be seen.
 */
class StoreClock {
  #options: StoreClockOptions
  #skewMs = 0

  constructor(options: StoreClockOptions) {
    this.#options = options
  }

  /** `time` is that of the store, in milliseconds since the epoch; it was asked for at `asked`, in monotonic milliseconds. */
  compare(time: number, asked: number): void {
    const { clock, logger, meter } = this.#options
    const now = clock.now()
    const was = this.warning()
    this.#skewMs = clockSkew({ from: time, to: time + 1 }, now - (clock.monotonic() - asked), now)
    meter?.gauge?.(METRIC, this.#skewMs / 1000)
    const warning = this.warning()
    if (warning !== undefined && was === undefined) logger.warn({ skewMs: Math.round(this.#skewMs) }, warning)
  }

  warning(): string | undefined {
    return Math.abs(this.#skewMs) > MAX_MS ? describeSkew('Redis', this.#skewMs) : undefined
  }
}
