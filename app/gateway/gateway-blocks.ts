// Connects the blocks of operators with the calls, the records and the notices of a gateway.
import { join } from 'node:path'
import { identity, resolve, resolveOptional, services, tokens } from '@svc/core'
import type { InsertedStage } from '@svc/core/pipeline'
import { MemoryBoard } from '@svc/core/store'
import type { Operation } from '../admin/operation.js'
import { Blocks } from '../blocks/blocks.js'
import { BlocksFile } from '../blocks/kept-blocks.js'
import { type BlockJournal, blockOperations, reportStep } from '../blocks/operations.js'
import { blockStage, stopIfBlocked } from '../blocks/stage.js'
import type { GatewayBuilder } from './builder.js'
import type { Policies } from './policies.js'

export interface GatewayBlocks {
  readonly blocks: Blocks
  readonly stage: InsertedStage
  readonly operations: readonly Operation[]
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
  const blocks = new Blocks({
    clock,
    logger,
    file: new BlocksFile(join(stateDir, 'blocks.json')),
    open: async () => {
      const board = resolveOptional(policies().current.container, services.board)
      if (board === undefined) return new MemoryBoard(clock)
      if (typeof board === 'function') return board()
      const { LmdbBoard } = await import('@svc/core/lmdb')
      return new LmdbBoard(board.dir, clock)
    },
    changed(list) {
      for (const call of policies().calls()) stopIfBlocked(call, list)
    },
    ended: (block) => void reportStep('expire', block, journal),
  })
  const stage = { name: 'blocks', stage: blockStage(() => blocks.list), within: identity }
  return { blocks, stage, operations: blockOperations(() => blocks, journal) }
}
