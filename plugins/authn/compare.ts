// Compares two sections: who needs no token, and which scopes a token needs. Other changes of `oidc` are not compared.
import { isDeepStrictEqual } from 'node:util'
import type { ChangeEffect, PolicyChange } from '@svc/core'
import type { AuthnConfig, OidcConfig } from './config.js'

export function compareAuthn(before: AuthnConfig, after: AuthnConfig): PolicyChange[] {
  const changes: PolicyChange[] = []
  const add = (effect: ChangeEffect, key: string, detail: string) =>
    changes.push({ effect, subject: `authn.${key}`, detail })
  const [was, is] = [before.allowUnauthenticated, after.allowUnauthenticated]
  if (was !== is) add(is ? 'wider' : 'narrower', 'allowUnauthenticated', `${was} -> ${is}`)
  if (!isDeepStrictEqual(before.stdioCaller, after.stdioCaller))
    add('unknown', 'stdioCaller', 'changed, not compared')
  const [old, now] = [before.oidc, after.oidc]
  if (old === undefined || now === undefined) {
    if (old !== now)
      add(
        now === undefined ? 'narrower' : 'wider',
        'oidc',
        now === undefined ? 'removed: no token is accepted' : 'added: tokens of the issuer are accepted',
      )
    return changes
  }
  const [required, needed] = [old.scopes?.required ?? [], now.scopes?.required ?? []]
  for (const scope of needed)
    if (!required.includes(scope)) add('narrower', 'oidc.scopes.required', `needs ${scope}`)
  for (const scope of required)
    if (!needed.includes(scope)) add('wider', 'oidc.scopes.required', `no longer needs ${scope}`)
  const others = (keys: readonly (keyof OidcConfig)[]) =>
    keys.filter((key) => !isDeepStrictEqual(rest(old)[key], rest(now)[key]))
  const keys = [...new Set([...Object.keys(old), ...Object.keys(now)])] as (keyof OidcConfig)[]
  for (const key of others(keys.filter((one) => !caches.has(one))))
    add('unknown', `oidc.${key}`, 'changed, not compared')
  for (const key of others(keys.filter((one) => caches.has(one))))
    add('none', `oidc.${key}`, 'changed; it decides on no call')
  return changes
}

const caches: ReadonlySet<string> = new Set(['jwks', 'tokenCacheSize', 'tokenCacheSec', 'publicClientId'])

/** Without the scopes that every call needs, which are compared. */
function rest({ scopes, ...oidc }: OidcConfig): Partial<OidcConfig> {
  if (scopes === undefined) return oidc
  return Object.keys(scopes.servers).length + Object.keys(scopes.tools).length === 0
    ? oidc
    : { ...oidc, scopes: { ...scopes, required: [] } }
}
