// A record of the log as one row: what the console shows of a call.
import { defined } from '@svc/core/json'
import { callerIn, callerNameIn } from '@svc/plugin-audit/log'
import { z } from 'zod'

const keptSchema = z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()]))

export const callRowSchema = z.object({
  id: z
    .string()
    .describe('Its place in the log, <day>:<byte after its line>; later records have later ones.'),
  at: z.iso.datetime(),
  kind: z.enum(['call', 'event']).describe('A call, or an event of the gateway itself.'),
  tenant: z.string(),
  caller: z
    .string()
    .describe(
      'The user, else the service agent, else the agent as it names itself, else `anonymous`; empty for an event that nobody caused.',
    ),
  agent: z.string().optional().describe('The agent, as the caller names it.'),
  server: z.string(),
  tool: z.string(),
  decision: z.enum(['allow', 'deny']),
  would_deny: z.boolean().optional().describe('The policy observes, and would deny it.'),
  status: z.enum(['ok', 'error']),
  sent: z.enum(['no', 'yes', 'unknown']).optional(),
  error: z.string().optional().describe('A code of docs/reference/errors.md.'),
  reasons: z.array(z.string()).describe('Reason tokens of what was found.'),
  latency_ms: z.number(),
  trace_id: z.string(),
  span_id: z.string(),
  escalation_id: z.string().optional(),
  kept: keptSchema.optional().describe('Values of arguments that rules keep for the record, by their paths.'),
})

export type CallRow = z.output<typeof callRowSchema>

const MAX_NAME = 300
const MAX_REASONS = 10

const text = z.string()
const recordSchema = z.looseObject({
  ts: z.iso.datetime(),
  tenant: text,
  server: text,
  tool: text,
  status: z.enum(['ok', 'error']),
  sent: z.enum(['no', 'yes', 'unknown']).optional(),
  policy: z.looseObject({ decision: z.enum(['allow', 'deny']) }),
  latency_ms: z.number(),
  trace_id: text,
  span_id: text,
  gateway: text.optional(),
  principal: z
    .looseObject({
      user: text.exactOptional(),
      user_id: text.exactOptional(),
      client_id: text.exactOptional(),
      roles: z.array(text).exactOptional(),
    })
    .default({}),
  error: text.optional(),
  findings: z.array(z.looseObject({ reason: text, effect: text })).default([]),
  agentRef: text.nullish(),
  escalation_id: text.optional(),
  policy_sha256: text.exactOptional(),
  decided_by: z
    .object({
      stage: text,
      rule: text.exactOptional(),
      pattern: text.exactOptional(),
      limit: text.exactOptional(),
      approval: text.exactOptional(),
    })
    .exactOptional(),
  agentMetadata: z.record(text, z.unknown()).nullish(),
  kept: z.looseObject({ values: keptSchema }).optional().catch(undefined),
})

export type ReadRecord = z.output<typeof recordSchema>

/** Undefined for a line that is not a record, of which the log may have some. */
export function readRecord(line: string): ReadRecord | undefined {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    // `svc audit verify` says what is wrong with it.
    return undefined
  }
  return recordSchema.safeParse(value).data
}

export function callRowOf(record: ReadRecord, id: string): CallRow {
  const {
    agentRef,
    server,
    tool,
    gateway,
    error,
    escalation_id: escalation,
    sent,
    findings,
    kept: { values: kept = {} } = {},
  } = record
  const isEvent = server === gateway && tool.includes('/')
  return {
    id,
    at: record.ts,
    kind: isEvent ? 'event' : 'call',
    tenant: cut(record.tenant),
    caller: cut(isEvent ? (callerNameIn(record.principal) ?? '') : callerIn(record)),
    ...(typeof agentRef === 'string' ? { agent: cut(agentRef) } : {}),
    server: cut(withoutVersion(server)),
    tool: cut(withoutVersion(tool)),
    decision: record.policy.decision,
    ...(findings.some(({ effect }) => effect === 'would_deny') ? { would_deny: true } : {}),
    status: record.status,
    ...defined({ sent, error }),
    reasons: [...new Set(findings.map(({ reason }) => cut(reason)))].slice(0, MAX_REASONS),
    latency_ms: record.latency_ms,
    trace_id: record.trace_id,
    span_id: record.span_id,
    ...defined({ escalation_id: escalation }),
    ...(Object.keys(kept).length === 0 ? {} : { kept }),
  }
}

function cut(text: string): string {
  return text.length > MAX_NAME ? `${text.slice(0, MAX_NAME).toWellFormed()}…` : text
}

function withoutVersion(reference: string): string {
  const at = reference.lastIndexOf('@')
  return at > 0 ? reference.slice(0, at) : reference
}
