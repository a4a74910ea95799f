// Blocks over the admin listener: each step is in force, then a record and a notice.
import { type GatewayEvent, type Notices, Refusal, type Reviewer } from '@svc/core'
import { compilePattern, foldName, PatternError } from '@svc/core/match'
import { z } from 'zod'
import { type Operation, operation } from '../admin/operation.js'
import { type Block, blockKinds, blockSchema } from './block.js'
import type { Blocks, Changed } from './blocks.js'

const MAX_SECONDS = 30 * 86_400

const setSchema = z.strictObject({
  kind: z.enum(blockKinds),
  pattern: z.string().min(1).max(1000),
  for_sec: z.int().min(1).max(MAX_SECONDS),
  reason: z.string().min(1).max(500),
})

const changedSchema = z.object({
  block: blockSchema,
  acknowledged: z.array(z.string()).describe('Gateways that apply it.'),
  silent: z.array(z.object({ gateway: z.string(), silent_ms: z.number() })),
  store_error: z.string().optional(),
  recorded: z.boolean(),
})

const listSchema = z.object({ blocks: z.array(blockSchema) })

export type BlocksJson = z.output<typeof listSchema>

type Step = 'set' | 'lift' | 'expire'

export interface BlockJournal {
  record(event: Omit<GatewayEvent, 'traceId'>): Promise<void>
  readonly notices: Notices
  /** A record that could not be written. */
  unrecorded(error: unknown): void
}

/** Resolves to whether the step is recorded. Never rejects: it is in force in any case. */
export async function reportStep(
  step: Step,
  block: Block,
  { record, notices, unrecorded }: BlockJournal,
  client?: Reviewer,
): Promise<boolean> {
  const types = { set: 'block.set', lift: 'block.lifted', expire: 'block.expired' } as const
  notices.send({ type: types[step], data: { ...block } })
  try {
    await record({
      name: `blocks/${step}`,
      decision: 'allow',
      findings: [{ reason: `block_${step}`, stage: 'blocks', effect: 'reported', detail: block.reason }],
      facts: { ...block },
      ...(client?.kind === 'user' ? { principal: client.identity, tenant: client.identity.tenant } : {}),
    })
    return true
  } catch (error) {
    unrecorded(error)
    return false
  }
}

/** `blocks` returns those of the gateway, once it has started. */
export function blockOperations(blocks: () => Blocks, journal: BlockJournal): Operation[] {
  const finished = async (step: Step, { block, spread }: Changed, client: Reviewer) => {
    const [recorded, result] = await Promise.all([reportStep(step, block, journal, client), spread])
    return { block, ...result, recorded }
  }
  return [
    operation({
      method: 'GET',
      path: '/api/blocks',
      name: 'list_blocks',
      summary: 'Lists the blocks in force.',
      access: 'auditor',
      response: listSchema,
      run: async (): Promise<BlocksJson> => ({ blocks: [...blocks().list.blocks] }),
    }),
    operation({
      method: 'POST',
      path: '/api/blocks',
      name: 'set_block',
      summary: 'Blocks callers, tools or servers at once.',
      access: 'operator',
      isUnrecorded: true,
      body: setSchema,
      response: changedSchema,
      async run({ client, body: { kind, pattern, reason, for_sec } }) {
        checkPattern(kind, pattern)
        const given = { kind, pattern, reason, by: nameOf(client) }
        return finished('set', blocks().set(given, for_sec * 1000), client)
      },
    }),
    operation({
      method: 'POST',
      path: '/api/blocks/:id/lift',
      name: 'lift_block',
      summary: 'Ends a block.',
      access: 'operator',
      isUnrecorded: true,
      body: z.strictObject({}),
      response: changedSchema,
      async run({ client, id = '' }) {
        const lifted = blocks().lift(id)
        if (lifted === undefined)
          throw new Refusal('TARGET_NOT_FOUND', 'There is no such block; it may have ended.')
        return finished('lift', lifted, client)
      },
    }),
  ]
}

/** A pattern that matches nothing would be acknowledged like any other. @throws {Refusal} `BAD_REQUEST` */
function checkPattern(kind: Block['kind'], pattern: string): void {
  if (kind === 'server' && !/^(?:mcp:\/\/)?[^/]+$/.test(pattern))
    throw new Refusal(
      'BAD_REQUEST',
      'pattern: a server is given by its name, without "/"; tools by kind tool.',
    )
  if (kind === 'principal' && foldName(pattern) === '')
    throw new Refusal('BAD_REQUEST', 'pattern: it has no character that a name can have.')
  try {
    if (kind !== 'principal') compilePattern(kind === 'server' ? `${pattern}/*` : pattern)
  } catch (error) {
    if (error instanceof PatternError)
      throw new Refusal('BAD_REQUEST', `pattern: ${error.message}.`, { cause: error })
    throw error
  }
}

function nameOf(client: Reviewer): string {
  if (client.kind === 'admin') return 'the admin token'
  const { user, userId, clientId } = client.identity
  return user ?? userId ?? clientId ?? 'a user'
}
