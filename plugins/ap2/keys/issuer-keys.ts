// Finds the key of an issuer: a configured one first, else by the method of its DID.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { isUnrecorded } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { MandateError } from '../mandate/error.js'
import type { Jwt } from '../mandate/jwt.js'
import { type DidMethod, didOfUrl, methodOf } from './did-method.js'
import { fitsAlgorithm, keysOfJwkSet, type VerificationKey } from './verification-key.js'

export interface IssuerRules {
  /** The allowed methods; absent: every method that has a resolver. */
  readonly didMethods: ReadonlySet<string> | undefined
  readonly allowed: ReadonlySet<string>
  readonly pinned: ReadonlyMap<string, readonly VerificationKey[]>
  readonly methods: Readonly<Record<string, DidMethod>>
}

export class IssuerKeys {
  #rules: IssuerRules

  constructor(rules: IssuerRules) {
    this.#rules = rules
  }

  get allowed(): readonly string[] {
    return [...this.#rules.allowed]
  }

  /**
   * The issuer of a token: its `iss`, else the DID in its `kid`, else the only issuer with a pinned key of this `kid`.
   * Errors with the first two reasons of the checks.
   */
  issuerOf({ payload, kid }: Jwt): string {
    const { iss } = payload
    const issuer = typeof iss === 'string' ? iss : this.#issuerByKid(kid)
    if (issuer === undefined)
      throw new MandateError('ap2_issuer_not_allowed', 'the mandate names no known issuer')
    if (!this.#rules.allowed.has(issuer)) {
      throw new MandateError('ap2_issuer_not_allowed', 'the issuer is not among those that the policy allows')
    }
    const { didMethods } = this.#rules
    const method = methodOf(issuer)
    if (method !== undefined && didMethods !== undefined && !didMethods.has(method)) {
      throw new MandateError('ap2_did_method_not_allowed', `the policy does not allow did:${method}`)
    }
    return issuer
  }

  /** The key of the issuer that the token names. Its algorithm is not checked. */
  async keyOf(issuer: string, { kid, alg }: Jwt): Promise<VerificationKey> {
    const named = await this.#named(issuer, kid)
    const fitting = named.length > 1 ? named.filter(({ jwk }) => fitsAlgorithm(jwk, alg)) : named
    const [key, ...others] = fitting
    if (key !== undefined && others.length === 0) return key
    const count = key === undefined ? 'no key' : 'more than one key'
    throw new MandateError('ap2_key_unresolved', `the issuer has ${count} that the mandate can mean`)
  }

  /** The keys that the token can name. An issuer may have published a new key since its document was fetched. */
  async #named(issuer: string, kid: string | undefined): Promise<readonly VerificationKey[]> {
    const keys = await this.keysOf(issuer)
    if (kid === undefined) return keys
    const isNamedKey = ({ id }: VerificationKey) => isNamed(id, kid, issuer)
    const named = keys.filter(isNamedKey)
    if (named.length > 0 || this.#rules.pinned.has(issuer)) return named
    const fresh = this.#resolverOf(issuer)?.refresh?.(issuer)
    return fresh === undefined ? named : (await resolved(fresh)).filter(isNamedKey)
  }

  async keysOf(issuer: string): Promise<readonly VerificationKey[]> {
    const pinned = this.#rules.pinned.get(issuer)
    if (pinned !== undefined) return pinned
    const resolver = this.#resolverOf(issuer)
    if (resolver === undefined) {
      throw new MandateError(
        'ap2_key_unresolved',
        'the policy has no keys of the issuer, and no way to find them',
      )
    }
    return resolved(resolver.resolve(issuer))
  }

  #resolverOf(issuer: string): DidMethod | undefined {
    const method = methodOf(issuer)
    const { methods } = this.#rules
    return method !== undefined && Object.hasOwn(methods, method) ? methods[method] : undefined
  }

  #issuerByKid(kid: string | undefined): string | undefined {
    if (kid === undefined) return undefined
    const did = didOfUrl(kid)
    if (did !== undefined) return did
    const issuers = [...this.#rules.pinned].filter(([, keys]) => keys.some(({ id }) => id === kid))
    return issuers.length === 1 ? issuers[0]?.[0] : undefined
  }
}

async function resolved(keys: Promise<readonly VerificationKey[]>): Promise<readonly VerificationKey[]> {
  try {
    return await keys
  } catch (cause) {
    if (isUnrecorded(cause)) throw cause
    throw new MandateError('ap2_key_unresolved', `the issuer's keys cannot be found: ${messageOf(cause)}`, {
      cause,
    })
  }
}

/** A `kid` is a key's id, or the fragment of its DID URL. */
function isNamed(id: string | undefined, kid: string, issuer: string): boolean {
  return id === kid || id === `${issuer}#${kid}` || id === `${issuer}${kid}`
}

interface Pinned {
  readonly keys?: readonly unknown[] | undefined
  readonly file?: string | undefined
}

/** @throws {Error} for a file that cannot be read or is not a key set */
export function pinnedKeys(
  issuers: Readonly<Record<string, Pinned>>,
  baseDir: string,
): ReadonlyMap<string, readonly VerificationKey[]> {
  return new Map(
    Object.entries(issuers).map(([issuer, { keys, file }]) => {
      const set: unknown =
        file === undefined ? { keys } : JSON.parse(readFileSync(resolve(baseDir, file), 'utf8'))
      const found = keysOfJwkSet(set)
      if (found === undefined || found.length === 0) {
        throw new Error(`${file ?? 'keys'} has no public key for ES256, ES384 or EdDSA`)
      }
      return [issuer, found]
    }),
  )
}
