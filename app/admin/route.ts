// Where a request to the admin listener goes, from its method and path alone.
import { isEscalationId } from '../escalations/id.js'

export type AdminRoute =
  | { readonly kind: 'health' }
  | { readonly kind: 'metrics' }
  | { readonly kind: 'list'; readonly query: URLSearchParams }
  | { readonly kind: 'show'; readonly id: string }
  | { readonly kind: 'vote'; readonly id: string }
  | { readonly kind: 'none' }

const onePath = /^\/api\/escalations\/([^/]+)(\/votes)?$/

export function adminRouteOf(method: string, url: string): AdminRoute {
  const [path = '', ...rest] = url.split('?')
  const [, one, votes] = onePath.exec(path) ?? []
  if (one !== undefined && !isEscalationId(one)) return none
  if (method === 'POST') return one === undefined || votes === undefined ? none : { kind: 'vote', id: one }
  if (method !== 'GET' && method !== 'HEAD') return none
  if (path === '/healthz') return { kind: 'health' }
  if (path === '/metrics') return { kind: 'metrics' }
  if (path === '/api/escalations') return { kind: 'list', query: new URLSearchParams(rest.join('?')) }
  return one === undefined || votes !== undefined ? none : { kind: 'show', id: one }
}

const none: AdminRoute = { kind: 'none' }
