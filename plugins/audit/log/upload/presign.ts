// The upload configuration, checked in the constructor so that an unusable key shows before the first record.

import { isUrl, parseJsonObject } from '@svc/core/json'
import { AuditError } from '../format/errors.js'

/** The control plane, and the owner of the uploaded bytes. */
export interface PresignConfig {
  /** Base address of the control plane. */
  apiBaseUrl: string
  /** The exact `Authorization` header, scheme word included: `Bearer <API_KEY>`. */
  auditKey: string
  tenant?: string | undefined
  environment?: string | undefined
  clientName?: string | undefined
  clientVersion?: string | undefined
  /** Time limit of each call to the control plane, milliseconds. Default 10 000. */
  timeoutMs?: number | undefined
  /** Interval between checks for new bytes, milliseconds. Default 10 000. */
  intervalMs?: number | undefined
  /** How long bytes may wait before `status()` and `/readyz` warn, milliseconds. Default 900 000. */
  maxDelayMs?: number | undefined
}

/** The members that the upload thread needs: other members of a caller's object may not be transferable to it. */
export function plainPresign(config: PresignConfig): PresignConfig {
  const { apiBaseUrl, auditKey, tenant, environment, clientName, clientVersion } = config
  return { apiBaseUrl, auditKey, tenant, environment, clientName, clientVersion, timeoutMs: config.timeoutMs }
}

/** The owner of the uploaded bytes: the first part of every object's key. */
export interface UploadMetadata {
  readonly tenant: string
  readonly env: string
  readonly clientName: string
  readonly clientVersion: string
}

export const DEFAULT_TIMEOUT_MS = 10_000
export const DEFAULT_INTERVAL_MS = 10_000
export const DEFAULT_MAX_DELAY_MS = 900_000

const METADATA_FIELDS = ['tenant', 'environment', 'clientName', 'clientVersion'] as const
// RFC 9110 §5.5 and §11.1: a scheme word, one space, visible characters.
const AUTHORIZATION = /^[A-Za-z][A-Za-z0-9_-]* +[\x21-\x7e]+(?: [\x21-\x7e]+)*$/

/** The first invalid field and why; undefined when there is none. No message contains the key. */
export function presignError(
  config: PresignConfig,
): { field: keyof PresignConfig; what: string } | undefined {
  if (!isBaseUrl(config.apiBaseUrl)) {
    return {
      field: 'apiBaseUrl',
      what: 'must be an http or https URL without credentials, query or fragment',
    }
  }
  if (typeof config.auditKey !== 'string' || !AUTHORIZATION.test(config.auditKey)) {
    return {
      field: 'auditKey',
      what: 'must be the whole Authorization header, such as "Bearer <API_KEY>"',
    }
  }
  const missing = missingMetadata(config)
  if (isOidcToken(config.auditKey) && missing.length > 0) {
    return {
      field: 'auditKey',
      what:
        'holds an OIDC token, for which the control plane returns no metadata: ' +
        `set ${missing.map((field) => `presign.${field}`).join(', ')}, or use an API key`,
    }
  }
  for (const field of METADATA_FIELDS) {
    if (config[field] !== undefined && (typeof config[field] !== 'string' || config[field] === '')) {
      return { field, what: 'must be a text that is not empty' }
    }
  }
  for (const field of ['timeoutMs', 'intervalMs', 'maxDelayMs'] as const) {
    const value = config[field]
    if (value !== undefined && !(Number.isInteger(value) && value >= 1 && value < 2 ** 31)) {
      return { field, what: 'must be a whole number of milliseconds from 1 on' }
    }
  }
  return undefined
}

/** @throws {AuditError} `bad_config`. */
export function checkPresign(config: PresignConfig): void {
  const error = presignError(config)
  if (error !== undefined) {
    throw new AuditError('bad_config', `audit configuration: presign.${error.field} ${error.what}`)
  }
}

function missingMetadata(config: PresignConfig): string[] {
  return METADATA_FIELDS.filter((field) => config[field] === undefined || config[field] === '')
}

/**
 * Whether the credential is a JSON Web Token: three base64url segments (five when encrypted) of which the first is
 * a JOSE header, a JSON object (RFC 7515 §3.1, RFC 7516 §3.1). Everything else counts as an API key, opaque access
 * tokens included, because they look the same.
 */
export function isOidcToken(auditKey: string): boolean {
  const token = auditKey.slice(auditKey.lastIndexOf(' ') + 1)
  const segments = token.split('.')
  if (segments.length !== 3 && segments.length !== 5) return false
  if (!segments.every((segment) => /^[A-Za-z0-9_-]*$/.test(segment))) return false
  return parseJsonObject(Buffer.from(segments[0] ?? '', 'base64url').toString('utf8')) !== undefined
}

function isBaseUrl(text: unknown): boolean {
  if (typeof text !== 'string' || !isUrl(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  const isHttp = protocol === 'http:' || protocol === 'https:'
  return isHttp && username === '' && password === '' && search === '' && hash === ''
}
