// The kinds of requests that servers send to clients.
import type { AskedRequest } from '@svc/core'
import { foldName } from '@svc/core/match'

const requestKinds = ['sampling', 'elicitation_form', 'elicitation_url', 'roots'] as const
export type AskedKind = (typeof requestKinds)[number]

const notAlphanumeric = /[^\p{L}\p{N}]+/gu

/** `passed`: it asks nobody for anything. `unknown` also for a name that a client could read as one of the others. */
export function kindOf({ method, params }: AskedRequest): AskedKind | 'passed' | 'unknown' {
  switch (method) {
    case 'sampling/createMessage':
      return 'sampling'
    case 'roots/list':
      return 'roots'
    case 'elicitation/create':
      return elicitationKind(params['mode'], params)
    default:
      return method === 'ping' || tasks.has(method) ? 'passed' : 'unknown'
  }
}

/** A task of the client's is the response to a request that was judged. */
const tasks: ReadonlySet<string> = new Set(['tasks/get', 'tasks/result', 'tasks/list', 'tasks/cancel'])

/** The members that clients read. */
const read = new Map(
  ['mode', 'message', 'url', 'elicitationId', 'requestedSchema'].map((name) => [name.toLowerCase(), name]),
)

/** Without a mode it is a form. A client that does not know modes may read either member. */
function elicitationKind(mode: unknown, params: AskedRequest['params']) {
  const isAlike = (name: string): boolean =>
    (read.get(foldName(name).replace(notAlphanumeric, '')) ?? name) !== name
  if (Object.keys(params).some(isAlike)) return 'unknown'
  const hasUrl = 'url' in params
  const hasForm = 'requestedSchema' in params
  if (mode === 'url') return hasForm ? 'unknown' : 'elicitation_url'
  return (mode === undefined || mode === 'form') && !hasUrl ? 'elicitation_form' : 'unknown'
}
