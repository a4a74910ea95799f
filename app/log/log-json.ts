// The JSON in which the admin API describes the audit log.
import { z } from 'zod'

const maxListed = 200
const text = z.string().min(1).max(200)
const count = z.int().min(0)
const leafText = z.string().regex(/^(?:0|[1-9]\d{0,14})$/, 'expected the index of a leaf')

/** The members of a filter: those of `svc audit show`, in snake case. */
const filterShape = {
  since: text.optional(),
  until: text.optional(),
  tenant: text.optional(),
  tool: text.optional(),
  server: text.optional(),
  decision: z.enum(['allow', 'deny']).optional(),
  status: z.enum(['ok', 'error']).optional(),
  trace_id: text.optional(),
  span_id: text.optional(),
  agent: text.optional(),
  principal: text.optional(),
  error: text.optional(),
  escalation: text.optional(),
  policy_sha256: text.optional(),
}

const limitText = (max: number) =>
  z
    .string()
    .regex(/^[1-9]\d{0,6}$/, `expected 1 to ${max}`)
    .transform(Number)
    .refine((limit) => limit <= max, `expected 1 to ${max}`)

export const recordsQuery = z.strictObject({
  ...filterShape,
  kind: z.enum(['call', 'event']).optional().describe('Calls, or events of the gateway such as votes.'),
  before: leafText.transform(Number).optional(),
  limit: limitText(maxListed).default(50),
})

export const evidenceQuery = z.strictObject({ ...filterShape, limit: limitText(1_000_000).optional() })

export const logQuery = z.strictObject({
  older: leafText.transform(Number).optional().describe('Number of leaves of a head that you have kept.'),
})

export const recordSchema = z.object({
  leaf: count.nullable().describe('Index in the tree of the log; null if it is not sealed yet.'),
  record: z.looseObject({}).describe('As docs/audit.md describes it.'),
})

export const recordsSchema = z.object({
  records: z.array(recordSchema).readonly(),
  next: count
    .nullable()
    .describe(
      'Give it as `before` for older records; null at the beginning of the log. A page may be short or empty.',
    ),
})

export type RecordJson = z.output<typeof recordSchema>
export type RecordsJson = z.output<typeof recordsSchema>

const keyLinesSchema = z
  .array(z.string())
  .readonly()
  .describe('Public keys, each with the leaves that it may sign, as the log itself states them.')

export const proofSchema = z.object({
  leaf: count,
  sealed: z.boolean().describe('Whether the newest checkpoint covers it.'),
  proof: z
    .string()
    .optional()
    .describe('c2sp.org/tlog-proof@v1 of the record as it is stored now. Not judged: check it.'),
  sealed_sha256: z.string().optional().describe('SHA-256 of the leaf as the tree has it.'),
  keys: keyLinesSchema.optional(),
})

export type ProofJson = z.output<typeof proofSchema>

const headShape = {
  size: count.describe('Number of leaves.'),
  root: z.string().describe('Base64.'),
  note: z.string().describe('The signed checkpoint.'),
}

export const logSchema = z.object({
  origin: z.string().nullable().describe('Name of the log; null if it has no journal.'),
  days: z
    .array(
      z.object({
        day: z.string(),
        state: z
          .enum(['sealed', 'open', 'removed', 'gap', 'empty'])
          .describe(
            'open: its end is not sealed yet; gap: sealed records are missing; empty: there are no records.',
          ),
        records: count.describe('Sealed ones.'),
        bytes: count,
        removed_at: z.string().optional(),
      }),
    )
    .readonly()
    .describe('At most the last 400, one after the other.'),
  head: z.object(headShape).nullable(),
  cosigned: z
    .object({
      ...headShape,
      witnesses: z
        .array(z.object({ name: z.string(), at: z.string() }))
        .readonly()
        .describe('Their signatures are not checked here.'),
    })
    .nullable(),
  sealed_at: z.string().nullable().describe('The time of the last line of the journal.'),
  keys: keyLinesSchema,
  consistency: z
    .array(z.string())
    .readonly()
    .optional()
    .describe(
      'Base64 of the hashes that lead from `older` leaves to the head (RFC 6962); none if the head has no more.',
    ),
  seal_interval_ms: z.number().nullable().describe('How often new records are sealed; null: never.'),
  writing: z.object({
    writable: z.boolean(),
    warning: z.string().optional(),
    pending_bytes: count.describe('Bytes of records that are not on disk yet.'),
  }),
  upload: z.object({ state: z.string(), pending_bytes: count, lag_ms: z.number().optional() }).optional(),
  at: z.iso.datetime().describe('The time of the gateway.'),
})

export type LogJson = z.output<typeof logSchema>

export const estimateSchema = z.object({
  records: count,
  not_sealed: count,
  more: count.describe('Matching records beyond `limit`.'),
  bytes: count.describe('About.'),
  max_bytes: count,
})

export type EstimateJson = z.output<typeof estimateSchema>
