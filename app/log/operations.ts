// The operations of the admin API on the audit log. A thread of its own reads the files, so that no call waits for it; it and
// the tools of the log are loaded when somebody asks.
import { type Appender, isRefusal, Refusal, resolve, resolveOptional, services, tokens } from '@svc/core'
import { defined, messageOf } from '@svc/core/json'
import type { LogFilter } from '@svc/plugin-audit/tools'
import { type Operation, type OperationRequest, operation, PlainResponse } from '../admin/operation.js'
import { gatewayImplementation } from '../mcp/protocol.js'
import {
  type EstimateJson,
  estimateSchema,
  evidenceQuery,
  type LogJson,
  logQuery,
  logSchema,
  type ProofJson,
  proofSchema,
  recordSchema,
  recordsQuery,
  recordsSchema,
} from './log-json.js'

export const logOperations: readonly Operation[] = [
  operation({
    method: 'GET',
    path: '/api/log',
    name: 'show_log',
    summary:
      'Returns the state of the audit log: its days, its heads, and what waits for a seal, an upload or an export.',
    access: 'reader',
    isUnrecorded: true,
    query: logQuery,
    response: logSchema,
    run: (request) => logOf(request, request.query.older),
  }),
  operation({
    method: 'GET',
    path: '/api/records',
    name: 'list_records',
    summary:
      'Lists records of the audit log, the newest first; those of your tenant, if you read only these.',
    access: 'reader',
    query: recordsQuery,
    response: recordsSchema,
    async run(request) {
      const { before, limit, ...filter } = request.query
      const options = { limit, ...defined({ before }) }
      const read = await browser()
      return asked(() => read.call('records', dirOf(request), filterOf(filter, request), options))
    },
  }),
  operation({
    method: 'GET',
    path: '/api/records/:id',
    name: 'show_record',
    summary: 'Returns the record at a leaf of the audit log.',
    access: 'reader',
    response: recordSchema,
    run: async (request) => recordOf(request),
  }),
  operation({
    method: 'GET',
    path: '/api/records/:id/proof',
    name: 'prove_record',
    summary: 'Returns the proof that the record at a leaf is in the log.',
    access: 'reader',
    response: proofSchema,
    async run(request): Promise<ProofJson> {
      const { leaf } = await recordOf(request)
      const read = await browser()
      const proof = await asked(() => unlessNotSealed(read.call('proof', dirOf(request), leaf)))
      return proof === undefined ? { leaf, sealed: false } : { ...proof, sealed: true }
    },
  }),
  operation({
    method: 'GET',
    path: '/api/evidence/estimate',
    name: 'estimate_evidence',
    summary: 'Returns how many records and bytes a file of evidence would have.',
    access: 'reader',
    query: evidenceQuery,
    response: estimateSchema,
    async run(request): Promise<EstimateJson> {
      const read = await browser()
      const { notSealed, maxBytes, ...rest } = await asked(() =>
        read.call('estimate', dirOf(request), filterOf(request.query, request)),
      )
      return { ...rest, not_sealed: notSealed, max_bytes: maxBytes }
    },
  }),
  operation({
    method: 'GET',
    path: '/api/evidence',
    name: 'make_evidence',
    summary: 'Returns the records that match, with their proofs, as one HTML file that checks itself.',
    access: 'reader',
    query: evidenceQuery,
    response: 'text',
    async run(request) {
      const read = await browser()
      const now = resolve(request.policy.container, tokens.Clock).now()
      const body = await asked(() =>
        read.call('evidence', dirOf(request), filterOf(request.query, request), {
          madeBy: `svc-sdk ${gatewayImplementation.version}`,
          now,
        }),
      )
      const name = `evidence-${new Date(now).toISOString().slice(0, 19).replaceAll(':', '')}.html`
      const headers = {
        'content-type': 'text/html; charset=utf-8',
        'content-disposition': `attachment; filename="${name}"`,
      }
      return new PlainResponse({ status: 200, headers, body })
    },
  }),
]

async function browser() {
  return (await import('@svc/plugin-audit/tools')).logBrowser
}

type Asking = Pick<OperationRequest, 'access' | 'policy' | 'id'>

/** @throws {Refusal} `TARGET_NOT_FOUND` */
function dirOf({ policy }: Asking): string {
  const dir = resolveOptional(policy.container, services.auditLog)?.dir
  if (dir !== undefined) return dir
  throw new Refusal(
    'TARGET_NOT_FOUND',
    'The records of this gateway are written by code of its own, not in a log here.',
  )
}

/** The tenant whose records the client may read; undefined: all. @throws {Refusal} `TOOL_NOT_ALLOWED` */
function tenantOf({ access: { readsAll, tenant } }: Asking): string | undefined {
  if (readsAll) return undefined
  if (tenant !== undefined) return tenant
  throw new Refusal('TOOL_NOT_ALLOWED', 'Records are for operator, auditor and reviewer of admin.roles.')
}

type GivenFilter = { readonly [name: string]: string | number | undefined }

/** @throws {Refusal} */
function filterOf(query: GivenFilter, request: Asking): LogFilter {
  const { trace_id: traceId, span_id: spanId, policy_sha256: policySha256, ...rest } = query
  const own = tenantOf(request)
  if (own !== undefined && query['tenant'] !== undefined && query['tenant'] !== own) {
    throw new Refusal('TOOL_NOT_ALLOWED', 'You read the records of your tenant.')
  }
  const given = {
    ...rest,
    traceId,
    spanId,
    policySha256,
    ...(own === undefined ? {} : { tenant: own, readableBy: own }),
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

/** A record of another tenant is refused like one that does not exist. */
async function recordOf(request: Asking) {
  const tenant = tenantOf(request)
  const leaf = /^\d{1,15}$/.test(request.id ?? '') ? Number(request.id) : Number.NaN
  const { isReadableBy, logBrowser: read } = await import('@svc/plugin-audit/tools')
  const dir = dirOf(request)
  const found = Number.isNaN(leaf) ? undefined : await asked(() => read.call('record', dir, leaf))
  if (found !== undefined && (tenant === undefined || isReadableBy(tenant, found.record)))
    return { ...found, leaf }
  throw new Refusal('TARGET_NOT_FOUND', 'There is no record at this leaf, or retention removed it.')
}

/** Undefined if the log has no checkpoint. */
async function unlessNotSealed<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'not_sealed') return undefined
    throw error
  }
}

/** Rejects with `Refusal` for errors of the log. */
async function asked<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    if (isRefusal(error)) throw error
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    const message = `${messageOf(error)}.`
    if (code === 'bad_timestamp' || code === 'over_limit') throw new Refusal('BAD_REQUEST', message)
    if (code === 'not_found') throw new Refusal('TARGET_NOT_FOUND', message)
    throw new Refusal('AUDIT_UNAVAILABLE', 'The audit log cannot be read now.', { cause: error })
  }
}

async function logOf(request: Asking, older: number | undefined): Promise<LogJson> {
  const { container } = request.policy
  const read = await browser()
  const dir = dirOf(request)
  const summary = await asked(() => read.call('summary', dir, older))
  const { sealIntervalMs = null } = resolveOptional(container, services.auditLog) ?? {}
  const status = resolveOptional(container, tokens.SvcAppender)?.status?.()
  const now = resolve(container, tokens.Clock).now()
  return {
    ...summary,
    seal_interval_ms: sealIntervalMs,
    ...writingOf(status, now),
    at: new Date(now).toISOString(),
  }
}

type AppenderHealth = ReturnType<NonNullable<Appender['status']>>

function writingOf(
  status: Partial<AppenderHealth> | undefined,
  now: number,
): Pick<LogJson, 'writing' | 'upload'> {
  const { writable = true, warning, pendingBytes = 0, upload } = status ?? {}
  return {
    writing: { writable, pending_bytes: pendingBytes, ...defined({ warning }) },
    ...(upload === undefined
      ? {}
      : {
          upload: {
            state: upload.state,
            pending_bytes: upload.pendingBytes,
            ...(upload.pendingSince === undefined ? {} : { lag_ms: Math.max(0, now - upload.pendingSince) }),
          },
        }),
  }
}
