// The operations on blocks of the admin listener. Each step takes effect first, and then gets a record and a notice.

import { callerNameOf, type GatewayEvent, type Notices, Refusal, type Reviewer, withinLimit } from '@svc/core'
import { defined } from '@svc/core/json'
import { compilePattern, foldName, PatternError } from '@svc/core/match'
import { z } from 'zod'
import { type Block, blockKinds, blockSchema } from '../blocks/block.js'
import type { Blocks, Changed } from '../blocks/blocks.js'
import { type Operation, type OperationRequest, operation } from './operation.js'

const MAX_SECONDS = 30 * 86_400

export const reasonSchema = z
  .string()
  .trim()
  .min(1)
  .max(500)
  .describe('For the record; callers do not see it.')
export const secondsSchema = z.int().min(1).max(MAX_SECONDS)

const setSchema = z.strictObject({
  kind: z.enum(blockKinds),
  pattern: z.string().min(1).max(1000),
  for_sec: secondsSchema,
  reason: reasonSchema,
})

export const changedSchema = z.object({
  block: blockSchema,
  acknowledged: z.array(z.string()).describe('Gateways that apply it.'),
  silent: z.array(z.object({ gateway: z.string(), silent_ms: z.number() })),
  store_error: z.string().optional(),
  recorded: z.boolean(),
  warning: z.string().optional().describe('The block is on nothing that the gateway knows.'),
})

const listSchema = z.object({ blocks: z.array(blockSchema) })

export type BlocksJson = z.output<typeof listSchema>

type Step = 'set' | 'lift' | 'expire'

export interface BlockJournal {
  record(event: Omit<GatewayEvent, 'traceId'>): Promise<void>
  readonly notices: Notices
  /** Reports a record that could not be written. */
  unrecorded(error: unknown): void
}

/** `lifted`: the operator and the reason. Resolves to whether the step, which is in force already, is recorded. Never rejects. */
export async function reportStep(
  step: Step,
  block: Block,
  { record, notices, unrecorded }: BlockJournal,
  client?: Reviewer,
  lifted: { readonly lifted_by?: string; readonly lift_reason?: string } = {},
): Promise<boolean> {
  const types = { set: 'block.set', lift: 'block.lifted', expire: 'block.expired' } as const
  const facts = { ...block, ...lifted }
  notices.send({ type: types[step], data: facts })
  try {
    await record({
      name: `blocks/${step}`,
      decision: 'allow',
      findings: [
        {
          reason: `block_${step}`,
          stage: 'blocks',
          effect: 'reported',
          detail: lifted.lift_reason ?? block.reason,
        },
      ],
      facts,
      ...(client?.kind === 'user' ? { principal: client.identity, tenant: client.identity.tenant } : {}),
    })
    return true
  } catch (error) {
    unrecorded(error)
    return false
  }
}

/** Resolves when a change is recorded, and the other gateways have it or have had time for it. */
export async function finishedStep(
  step: Step,
  { block, spread }: Changed,
  journal: BlockJournal,
  client: Reviewer,
  lifted?: Parameters<typeof reportStep>[4],
): Promise<z.output<typeof changedSchema>> {
  const [recorded, result] = await Promise.all([reportStep(step, block, journal, client, lifted), spread])
  const { acknowledged, silent, ...rest } = result
  return { block, acknowledged: [...acknowledged], silent: [...silent], ...rest, recorded }
}

export interface BlockingGateway {
  readonly blocks: Blocks
  readonly journal: BlockJournal
}

/** Resolves to a warning if the block matches nothing that the gateway knows. */
type FindUnmatched = (block: Block, request: OperationRequest) => Promise<string | undefined>

/** The response does not wait longer for a warning. */
const WARNING_MS = 1_500

/** `gateway` is used when an operation runs, and not before. */
export function blockOperations(gateway: () => BlockingGateway, findUnmatched: FindUnmatched): Operation[] {
  return [
    operation({
      method: 'GET',
      path: '/api/blocks',
      name: 'list_blocks',
      summary: 'Lists the blocks in force.',
      access: 'auditor',
      response: listSchema,
      run: async (): Promise<BlocksJson> => ({ blocks: [...gateway().blocks.list.blocks] }),
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
      async run(request) {
        const {
          client,
          body: { kind, pattern, reason, for_sec },
        } = request
        checkPattern(kind, pattern)
        const given = { kind, pattern, reason, by: operatorName(client) }
        const changed = gateway().blocks.set(given, for_sec * 1000)
        const [result, warning] = await Promise.all([
          finishedStep('set', changed, gateway().journal, client),
          withinLimit('the warning', findUnmatched(changed.block, request), WARNING_MS).catch(
            () => undefined,
          ),
        ])
        return { ...result, ...defined({ warning }) }
      },
    }),
    operation({
      method: 'POST',
      path: '/api/blocks/:id/lift',
      name: 'lift_block',
      summary: 'Ends a block.',
      access: 'operator',
      isUnrecorded: true,
      body: z.strictObject({ reason: reasonSchema.optional() }),
      response: changedSchema,
      async run({ client, id = '', body: { reason } }) {
        const lifted = gateway().blocks.lift(id)
        if (lifted === undefined)
          throw new Refusal('TARGET_NOT_FOUND', 'There is no such block; it may have ended.')
        const why = reason === undefined ? {} : { lift_reason: reason }
        return finishedStep('lift', lifted, gateway().journal, client, {
          lifted_by: operatorName(client),
          ...why,
        })
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

export function operatorName(client: Reviewer): string {
  if (client.kind === 'admin') return 'the admin token'
  return callerNameOf(client.identity) ?? 'a user'
}
