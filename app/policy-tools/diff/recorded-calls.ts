// The callers and tools of recorded calls.
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { NamedAgent, PSEUDONYM, recordedCaller, recordedSubjectOf } from '../judge/recorded-call.js'
import { isCall } from '../replay/recorded-verdict.js'
import type { KnownCaller, KnownTool } from './known-calls.js'

/** Callers of logs that are compared at most. */
const MAX_CALLERS = 10_000

export interface RecordedCalls {
  readonly callers: readonly KnownCaller[]
  readonly tools: readonly KnownTool[]
  /** Whether there are more callers. */
  readonly hasMore: boolean
}

/** Each caller and each tool once. */
export async function recordedCalls(
  records: AsyncIterable<SignedEnvelope> | Iterable<SignedEnvelope>,
): Promise<RecordedCalls> {
  const callers = new Map<string, KnownCaller>()
  const tools = new Map<string, KnownTool>()
  let hasMore = false
  for await (const record of records) {
    const subject = isCall(record) ? recordedSubjectOf(record) : undefined
    if (subject === undefined) continue
    const { server, name, version } = subject
    if (subject.kind === 'tool') tools.set(`${server}/${name}@${version}`, { server, name, version })
    const { tenant, principal, nodeId } = record
    const key = JSON.stringify([tenant, principal, nodeId])
    if (principal === undefined || callers.has(key)) continue
    if (callers.size < MAX_CALLERS) callers.set(key, callerOf(record))
    else hasMore = true
  }
  return { callers: [...callers.values()], tools: [...tools.values()], hasMore }
}

function callerOf(record: SignedEnvelope): KnownCaller {
  const { tenant, principal: { user, user_id, client_id, roles = [] } = {}, nodeId = null } = record
  const names = Object.entries({ user, 'user id': user_id, agent: client_id, node: nodeId })
  const [named = 'a caller'] = names.flatMap(([kind, name]) =>
    name === undefined || name === null || name.includes(PSEUDONYM) ? [] : [`${kind} ${name}`],
  )
  const subject = [named, ...roles.map((role) => `role ${role}`)].join(' with ')
  return { tenant, subject, trusted: recordedCaller(record), agent: new NamedAgent(nodeId) }
}
