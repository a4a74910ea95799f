// Finds mistakes and settings without effect in the section, beyond its schema.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import {
  type ConfigConflict,
  type DependencyContainer,
  hostOf,
  policyTokens,
  resolveOptional,
} from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { Ap2Config } from './config.js'
import { didMethods } from './keys/did-method.js'
import { pinnedKeys } from './keys/issuer-keys.js'

/** The DID methods that this package resolves. */
const builtinMethods = ['key', 'jwk', 'web'] as const

export function checkSection(config: Ap2Config, bindings: DependencyContainer): ConfigConflict[] {
  if (!config.enabled) {
    return config.mode === '' ? [] : [warning(['mode'], 'has no effect with enabled: false')]
  }
  return [
    ...checkFiles(config, bindings),
    ...checkMethods(config, bindings),
    ...checkIssuers(config),
    ...checkTools(config),
    ...checkRole(config),
    ...checkDenials(config, bindings),
  ]
}

function checkFiles({ trust }: Ap2Config, bindings: DependencyContainer): ConfigConflict[] {
  const { place } = hostOf(bindings)
  if (place === undefined) return []
  const found = Object.entries(trust.issuers).flatMap(([issuer, pinned]) =>
    attempt(['trust', 'issuers', issuer], () => pinnedKeys({ [issuer]: pinned }, place.baseDir)),
  )
  const { caFile } = trust.didWeb
  if (caFile === undefined) return found
  return [
    ...found,
    ...attempt(['trust', 'didWeb', 'caFile'], () => readFileSync(resolve(place.baseDir, caFile))),
  ]
}

function attempt(path: readonly string[], read: () => unknown): ConfigConflict[] {
  try {
    read()
    return []
  } catch (error) {
    return [{ path: ['ap2', ...path], message: messageOf(error) }]
  }
}

function checkMethods({ trust }: Ap2Config, bindings: DependencyContainer): ConfigConflict[] {
  const added = Object.keys(resolveOptional(bindings, didMethods) ?? {})
  const known: readonly string[] = [...builtinMethods, ...added]
  return (trust.didMethods ?? []).flatMap((method, index) => {
    if (known.includes(method)) return []
    const message = `no resolver for did:${method}; there are ${known.join(', ')}, and code may bind others as didMethods`
    return [{ path: ['ap2', 'trust', 'didMethods', index], message }]
  })
}

function checkIssuers({ trust }: Ap2Config): ConfigConflict[] {
  const { issuersAllowlist, issuers } = trust
  const allowed = issuersAllowlist ?? Object.keys(issuers)
  if (allowed.length === 0) {
    return [
      warning(['trust'], 'no issuer is allowed, so every mandate is refused; issuersAllowlist names them'),
    ]
  }
  return Object.keys(issuers).flatMap((issuer) =>
    allowed.includes(issuer)
      ? []
      : [
          warning(
            ['trust', 'issuers', issuer],
            'has no effect, as issuersAllowlist does not name this issuer',
          ),
        ],
  )
}

function checkTools({ mode, tools }: Ap2Config): ConfigConflict[] {
  if (tools.allow?.length === 0) {
    const refused =
      mode === 'full' || mode === 'partial' ? ', and every call with side effects is refused' : ''
    return [warning(['tools', 'allow'], `is empty, so mandates apply to no tool${refused}`)]
  }
  if (Object.keys(tools.bind).length > 0) return []
  return [warning(['tools'], 'without bind, a mandate that bounds a total, items or a merchant is refused')]
}

function checkRole({ role, tools }: Ap2Config): ConfigConflict[] {
  const bound = Object.entries(tools.bind)
  if (role === 'merchant')
    return bound.flatMap(([pattern, { openCheckoutHash }]) =>
      openCheckoutHash === undefined
        ? []
        : [warning(['tools', 'bind', pattern, 'openCheckoutHash'], 'has no effect with role: merchant')],
    )
  return bound.flatMap(([pattern, { items, openCheckoutHash }]) => [
    ...(items === undefined
      ? []
      : [
          warning(
            ['tools', 'bind', pattern, 'items'],
            'a payment mandate bounds no items, so a call without its checkout is refused',
          ),
        ]),
    ...(openCheckoutHash !== undefined
      ? []
      : [
          warning(
            ['tools', 'bind', pattern],
            'without openCheckoutHash, a payment mandate with the constraint payment.reference is refused',
          ),
        ]),
  ])
}

/** With `deny_on`, what it does not name is recorded and lets the call pass. */
function checkDenials({ mode }: Ap2Config, bindings: DependencyContainer): ConfigConflict[] {
  const denies = resolveOptional(bindings, policyTokens.denyRule)
  if (mode === 'observe' || mode === 'full' || denies?.mode !== 'enforce') return []
  const { denyOn } = denies
  if (denyOn === undefined || denyOn.includes('ap2_bad_signature')) return []
  return [
    warning(
      ['mode'],
      'reported only: enforcement.deny_on does not name ap2_bad_signature; see the mode full',
    ),
  ]
}

function warning(path: readonly string[], message: string): ConfigConflict {
  return { path: ['ap2', ...path], message, severity: 'warning' }
}
