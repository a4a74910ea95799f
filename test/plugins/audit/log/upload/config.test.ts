import { presignError } from '@svc/plugin-audit/internal/log/upload/presign'
import type { PresignConfig } from '@svc/plugin-audit/log'
import { expect } from 'chai'

const segment = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const token = `${segment({ alg: 'RS256' })}.${segment({ sub: 'ann' })}.c2lnbmF0dXJl`
const metadata = { tenant: 't', environment: 'e', clientName: 'c', clientVersion: '1' }
const base: PresignConfig = { apiBaseUrl: 'https://control.example/base/', auditKey: 'Bearer key' }

describe('presign', () => {
  for (const [title, changes, error] of [
    ['an API key without metadata', {}, undefined],
    ['an API key with dots that is not a token', { auditKey: 'Bearer live.key.1234' }, undefined],
    ['an OIDC token with all metadata', { auditKey: `Bearer ${token}`, ...metadata }, undefined],
    [
      'an OIDC token without metadata',
      { auditKey: `Bearer ${token}`, tenant: 't', clientVersion: '1' },
      'presign.auditKey holds an OIDC token, for which the control plane returns no metadata: ' +
        'set presign.environment, presign.clientName, or use an API key',
    ],
    [
      'an encrypted OIDC token without metadata',
      { auditKey: `Bearer ${segment({ enc: 'A256GCM' })}..a.b.c` },
      'presign.auditKey holds an OIDC token, for which the control plane returns no metadata: ' +
        'set presign.tenant, presign.environment, presign.clientName, presign.clientVersion, or use an API key',
    ],
    ['a key without scheme', { auditKey: 'key' }, 'presign.auditKey must be the whole Authorization header'],
    ['a key with a line break', { auditKey: 'Bearer a\nX: y' }, 'presign.auditKey must be'],
    ['a scheme without key', { auditKey: 'Bearer ' }, 'presign.auditKey must be'],
    ['no URL', { apiBaseUrl: 'control.example' }, 'presign.apiBaseUrl must be an http or https URL'],
    ['a URL with credentials', { apiBaseUrl: 'https://a:b@c.example' }, 'presign.apiBaseUrl must be'],
    ['another protocol', { apiBaseUrl: 'ftp://c.example' }, 'presign.apiBaseUrl must be'],
    ['an empty tenant', { tenant: '' }, 'presign.tenant must be a text'],
    ['no time', { timeoutMs: 0 }, 'presign.timeoutMs must be a whole number of milliseconds from 1 on'],
    ['half an interval', { intervalMs: 0.5 }, 'presign.intervalMs must be a whole number'],
  ] as const) {
    it(`${error === undefined ? 'takes' : 'refuses'} ${title}`, () => {
      const found = presignError({ ...base, ...changes })
      const said = found && `presign.${found.field} ${found.what}`
      if (error === undefined) expect(said).to.equal(undefined)
      else expect(said?.startsWith(error), said).to.equal(true)
    })
  }
})
