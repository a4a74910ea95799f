// Checks the issuer's key set, its metadata and its clock for `svc doctor`.
import { checkServer, type DoctorCheck } from '@svc/core'
import { HttpClient } from '@svc/core/http-client'
import { isUrl, messageOf, parseJsonObject } from '@svc/core/json'
import { type AuthnConfig, issuersOf, type OidcConfig } from './config.js'
import type { JwksSource } from './jwks-source.js'
import { readKeySet } from './key-set.js'
import { TENANT_ID } from './presets.js'

export async function checkIssuers(config: AuthnConfig, source: JwksSource): Promise<readonly DoctorCheck[]> {
  return (await Promise.all(issuersOf(config).map((oidc) => checkIssuer(oidc, source)))).flat()
}

async function checkIssuer(oidc: OidcConfig, source: JwksSource): Promise<readonly DoctorCheck[]> {
  const [reached, ...clock] = await checkServer("the issuer's key set", oidc.jwks_uri)
  if (reached.severity === 'error') return [reached]
  const keys = await checkKeys(oidc, source)
  return [keys, ...(await checkMetadata(oidc)), ...clock]
}

async function checkKeys(
  { jwks_uri: uri, jwks, algorithms }: OidcConfig,
  source: JwksSource,
): Promise<DoctorCheck> {
  const hint = 'check authn.oidc.jwks_uri against the metadata of the issuer'
  try {
    const document = await source.load(uri, AbortSignal.timeout(jwks.timeoutMs))
    const { keys, warnings } = readKeySet(document, undefined)
    const usable = [...keys.values()].filter((key) => algorithms.some((alg) => key.supports(alg)))
    if (usable.length === 0) {
      const message = `the key set ${uri} has no key for ${algorithms.join(', ')}`
      return { severity: 'error', message, hint: 'add the algorithm of the issuer to authn.oidc.algorithms' }
    }
    const message = `the key set ${uri} has ${usable.length} usable ${usable.length === 1 ? 'key' : 'keys'}`
    if (warnings.length === 0) return { severity: 'ok', message }
    return { severity: 'warning', message: `${message}; ${warnings.join('; ')}` }
  } catch (error) {
    return { severity: 'error', message: `the key set ${uri} cannot be read: ${messageOf(error)}`, hint }
  }
}

/**
 * OpenID Connect Discovery §4: not every issuer publishes its metadata; published metadata must agree with the policy.
 */
async function checkMetadata({ issuer, jwks_uri: uri, jwks }: OidcConfig): Promise<DoctorCheck[]> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  if (issuer.includes(TENANT_ID)) return []
  if (!/^https?:/.test(issuer) || !isUrl(url)) return []
  let published: Record<string, unknown> | undefined
  try {
    published = await metadataAt(url, jwks.timeoutMs)
  } catch (error) {
    const message = `the issuer ${issuer} does not respond at ${url}: ${messageOf(error)}`
    return [{ severity: 'warning', message, hint: 'check authn.oidc.issuer; clients sign in there' }]
  }
  const differences = Object.entries({ issuer, jwks_uri: uri }).flatMap(([key, configured]) => {
    const theirs = published?.[key]
    return typeof theirs !== 'string' || theirs === configured ? [] : [`${key} is ${theirs}`]
  })
  if (differences.length === 0) return []
  const message = `${url} says otherwise than authn.oidc: ${differences.join(', ')}`
  return [{ severity: 'warning', message, hint: 'take both from there, character by character' }]
}

const maxMetadataBytes = 256 * 1024

/** Undefined if there is none. Rejects if the issuer does not respond, or fails. */
async function metadataAt(url: string, timeoutMs: number): Promise<Record<string, unknown> | undefined> {
  const client = new HttpClient()
  try {
    const { status, bytes } = await client.send(url, { timeoutMs, maxBytes: maxMetadataBytes })
    if (status >= 500) throw new Error(`status ${status}`)
    return status === 200 ? parseJsonObject(bytes.toString('utf8')) : undefined
  } finally {
    await client.close()
  }
}
