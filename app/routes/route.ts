// Finds the route of a request by its method and path alone.
import { Refusal } from '@svc/core'
import { ALL_SERVERS_PATH, metadataPath } from '@svc/core/http'
import { parseNameSegment, parseToolSegment } from '@svc/core/match'
import { idForm } from '../http/request-errors.js'

type McpMethod = 'POST' | 'GET' | 'DELETE'

export type Route =
  | { readonly kind: 'invoke'; readonly server: string; readonly tool: string; readonly version: string }
  /** `name` is that of a server or group; undefined for /mcp itself. */
  | { readonly kind: 'mcp'; readonly name: string | undefined; readonly method: McpMethod }
  | { readonly kind: 'a2a' }
  | { readonly kind: 'health' }
  | { readonly kind: 'ready' }
  /** Metadata of the resource at `path`. */
  | { readonly kind: 'metadata'; readonly path: string }
  | { readonly kind: 'escalation'; readonly id: string }
  /** The path has other methods. */
  | { readonly kind: 'method'; readonly allow: string }
  /** A malformed path below /mcp/: refused as a call, so that it is recorded. */
  | { readonly kind: 'bad'; readonly refusal: Refusal }
  | { readonly kind: 'none' }

const paths = [
  ...[ALL_SERVERS_PATH, `${ALL_SERVERS_PATH}/<server>`, `${ALL_SERVERS_PATH}/<server>/<tool>@<version>`],
  ...['/a2a/invoke', '/escalations/<id>', '/healthz', '/readyz'],
].join(', ')

/** `servers` is what the caller may know of them. */
export function unknownPath(servers: string | undefined): Refusal {
  const known = servers === undefined ? '' : ` ${servers}`
  return new Refusal('TARGET_NOT_FOUND', `No such path; there are ${paths}.${known}`)
}

const onlyPost: Route = { kind: 'method', allow: 'POST' }

export function routeOf(method: string, url: string): Route {
  const query = url.indexOf('?')
  const path = query === -1 ? url : url.slice(0, query)
  if (path === ALL_SERVERS_PATH || path.startsWith(`${ALL_SERVERS_PATH}/`)) {
    return mcpRoute(method, path.slice(ALL_SERVERS_PATH.length + 1))
  }
  if (path === '/a2a/invoke') return method === 'POST' ? { kind: 'a2a' } : onlyPost
  if (method === 'GET' || method === 'HEAD') {
    if (path === '/healthz') return { kind: 'health' }
    if (path === '/readyz') return { kind: 'ready' }
    const described = metadataPath(path)
    if (described !== undefined) return { kind: 'metadata', path: described }
    const id = path.startsWith('/escalations/') ? path.slice(13) : ''
    if (idForm.test(id)) return { kind: 'escalation', id }
  }
  return { kind: 'none' }
}

function mcpRoute(method: string, rest: string): Route {
  const slash = rest.indexOf('/')
  try {
    if (slash === -1 || slash === rest.length - 1) {
      if (method !== 'POST' && method !== 'GET' && method !== 'DELETE') {
        return { kind: 'method', allow: 'GET, POST, DELETE' }
      }
      const segment = slash === -1 ? rest : rest.slice(0, slash)
      return { kind: 'mcp', name: segment === '' ? undefined : parseNameSegment(segment), method }
    }
    if (method !== 'POST') return onlyPost
    const { tool, version } = parseToolSegment(rest.slice(slash + 1))
    return { kind: 'invoke', server: parseNameSegment(rest.slice(0, slash)), tool, version }
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : 'malformed path'
    return { kind: 'bad', refusal: new Refusal('BAD_REQUEST', `Bad path: ${message}`, { cause }) }
  }
}
