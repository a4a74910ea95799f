// Where a request to the admin listener goes, from its method and path alone.
import { isEscalationId } from '../escalations/id.js'

export type AdminRoute =
  | { readonly kind: 'health' }
  | { readonly kind: 'metrics' }
  | { readonly kind: 'list'; readonly query: URLSearchParams }
  | { readonly kind: 'show'; readonly id: string }
  | { readonly kind: 'input'; readonly id: string }
  | { readonly kind: 'vote'; readonly id: string }
  | { readonly kind: 'none' }

const onePath = /^\/api\/escalations\/([^/]+)(\/votes|\/input)?$/

export function adminRouteOf(method: string, url: string): AdminRoute {
  const [path = '', ...rest] = url.split('?')
  const [, one, part] = onePath.exec(path) ?? []
  if (one !== undefined && !isEscalationId(one)) return none
  if (method === 'POST') return one === undefined || part !== '/votes' ? none : { kind: 'vote', id: one }
  if (method !== 'GET' && method !== 'HEAD') return none
  if (path === '/healthz') return { kind: 'health' }
  if (path === '/metrics') return { kind: 'metrics' }
  if (path === '/api/escalations') return { kind: 'list', query: new URLSearchParams(rest.join('?')) }
  if (one === undefined || part === '/votes') return none
  return { kind: part === undefined ? 'show' : 'input', id: one }
}

const none: AdminRoute = { kind: 'none' }
