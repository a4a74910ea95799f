// The operation that returns one call, with all that the gateway knows of it.

import { Refusal } from '@svc/core'
import { defined } from '@svc/core/json'
import { z } from 'zod'
import { type Operation, type OperationRequest, operation } from '../../admin/operation.js'
import { blockSchema } from '../../blocks/block.js'
import { MAX_BLOCKS } from '../../blocks/blocks.js'
import type { ProcessFacts } from '../process-facts.js'
import { type CallRow, callRowOf, callRowSchema, readRecord } from './call-row.js'
import { logDirectoryOf, ruleSchema } from './operations.js'

const MAX_SIBLINGS = 50
/** Records of definitions that are searched, the newest. */
const MAX_DEFINITIONS = 200

const callSchema = z.object({
  leaf: z.int().nullable().describe('Index in the tree of the log; null if it is not sealed yet.'),
  call: callRowSchema,
  record: z.looseObject({}).describe('As docs/audit.md describes it.'),
  rule: ruleSchema
    .optional()
    .describe('The entry of the policy that decided the call, if the policy is kept.'),
  stages: z
    .array(z.object({ stage: z.string(), from_ms: z.number(), to_ms: z.number() }))
    .optional()
    .describe('Where the call waited; for the last 1,000 calls of each process.'),
  told: z
    .string()
    .optional()
    .describe('The message of a refusal, as the caller got it; for the same calls as `stages`.'),
  definition: z
    .object({
      leaf: z.int().nullable(),
      at: z.iso.datetime(),
      name: z.string(),
      text: z.string().describe('Canonical JSON.'),
    })
    .optional()
    .describe('The definition that the caller was last served, from its record.'),
  block: blockSchema.optional().describe('The block of an operator that refused the call.'),
  siblings: z.array(callRowSchema).describe('Calls of the same trace, the newest first.'),
})

export type CallJson = z.output<typeof callSchema>

type CallRequest = Pick<OperationRequest, 'access' | 'policy' | 'id'>

export function showCall(facts: Pick<ProcessFacts, 'recentCall'>): Operation {
  return operation({
    method: 'GET',
    path: '/api/calls/:id',
    name: 'show_call',
    summary: 'Returns a call, by its leaf or by its id in the list of calls with `-` in place of `:`.',
    access: 'reader',
    response: callSchema,
    async run(request): Promise<CallJson> {
      const { dir, leaf, record, call } = await findCall(request)
      const { access } = request
      const [{ findCalls, maySee }, { Explainer }] = await Promise.all([
        import('./find-calls.js'),
        import('../../policy-tools/explain/explainer.js'),
      ])
      const { trace_id: traceId, span_id: spanId } = call
      const isSibling = (row: CallRow) =>
        row.kind === 'call' && row.trace_id === traceId && row.span_id !== spanId && maySee(access, row)
      const place = new Explainer(dir).placeOf(record)
      const recent = facts.recentCall(spanId)
      const definition = await definitionOf(dir, record)
      // Reviewers of a tenant do not see what operators do.
      const block = access.readsAll ? await blockOf(dir, record.decided_by?.rule) : undefined
      return {
        leaf,
        call,
        record: { ...record },
        ...(place === undefined ? {} : { rule: { ...place, lines: [...place.lines] } }),
        ...(recent === undefined
          ? {}
          : { stages: recent.waits.map(({ stage, from, to }) => ({ stage, from_ms: from, to_ms: to })) }),
        ...defined({ told: recent?.told, definition, block }),
        siblings: await findCalls(dir, isSibling, MAX_SIBLINGS, traceId),
      }
    },
  })
}

/** A client that may not see a call gets the same refusal as for one that does not exist. Rejects with `Refusal`. */
async function findCall({ access, policy, id = '' }: CallRequest) {
  const dir = logDirectoryOf(policy)
  const { isReadableBy, logBrowser } = await import('@svc/plugin-audit/tools')
  const [, day, byte] = /^(\d{4}-\d{2}-\d{2})-(\d{1,15})$/.exec(id) ?? []
  const asked = async () => {
    if (dir === undefined) return undefined
    if (day !== undefined) return logBrowser.call('recordEndingAt', dir, day, Number(byte))
    return /^\d{1,15}$/.test(id) ? logBrowser.call('record', dir, Number(id)) : undefined
  }
  const found = await asked()
  const read = found && readRecord(JSON.stringify(found.record))
  const { readsAll, tenant } = access
  const mayRead = read !== undefined && (readsAll || (tenant !== undefined && isReadableBy(tenant, read)))
  if (dir === undefined || found === undefined || !mayRead)
    throw new Refusal('TARGET_NOT_FOUND', 'There is no such call, or retention removed it.')
  const call = callRowOf(read, day === undefined ? '' : `${day}:${byte}`)
  return { ...found, dir, call }
}

/** From the record of when it was set; it may be lifted since. */
async function blockOf(dir: string, rule = ''): Promise<CallJson['block']> {
  const [, id] = /^blocked:(.+)$/.exec(rule) ?? []
  if (id === undefined) return undefined
  const { logBrowser } = await import('@svc/plugin-audit/tools')
  const { records } = await logBrowser.call('records', dir, { tool: 'blocks/set' }, { limit: MAX_BLOCKS })
  return records
    .map(({ record }) => blockSchema.safeParse(record.event).data)
    .find((block) => block?.id === id)
}

/** Each definition has one record, of the first time that somebody was served it. */
async function definitionOf(
  dir: string,
  { definition_sha256: sha256 }: { readonly definition_sha256?: string | null },
): Promise<CallJson['definition']> {
  if (sha256 === undefined || sha256 === null) return undefined
  const { logBrowser } = await import('@svc/plugin-audit/tools')
  const { records } = await logBrowser.call(
    'records',
    dir,
    { tool: 'definitions/serve' },
    { limit: MAX_DEFINITIONS },
  )
  for (const { leaf, record } of records) {
    const facts = servedSchema.safeParse(record.event).data
    if (facts?.sha256 === sha256) return { leaf, at: record.ts, name: facts.name, text: facts.text }
  }
  return undefined
}

const servedSchema = z.looseObject({ sha256: z.string(), name: z.string(), text: z.string() })
