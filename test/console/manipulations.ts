// Requests to the admin listener that no page of the console sends.
import type { Asking } from '../app/admin/rig.js'
import { newSessionKey, proofOf, type SessionClient } from './session-client.js'

/** Queries of readers, by path. */
export const queries: Readonly<Record<string, readonly string[]>> = {
  '/api/escalations': ['tenant=acme', 'tenant=beta', 'status=pending', 'review=open'],
  '/api/records': ['tenant=acme', 'tenant=beta', 'tool=refund_payment', 'principal=caller-of-beta.example'],
  '/api/evidence': ['tenant=acme', 'tenant=beta', 'tool=refund_payment'],
  '/api/evidence/estimate': ['tenant=acme', 'tenant=beta', 'tool=refund_payment'],
  '/api/activity': ['hours=1'],
  '/api/policy/access': ['tenant=beta', 'server=billing&tool=list_of_beta'],
}

const words = (text: string) => text.trim().split(/\s+/)

/** Paths and queries that a parser may not expect. */
export const oddPaths = [
  ...words(`
    /console/% /console/live/%ff /console/%00 /console/log/%F0%9F /console/servers/%25 /console/live?q=%
    /console//evil.example /console/..;/x /console/approvals/../../etc/passwd /console/policy/access?tenant=%ff
    /console/callback /console/callback?% /console/callback?error=x&error_description=%3Cscript%3E
    /api/escalations/__proto__ /api/escalations/.. /api/escalations?limit=0 /api/escalations?status=toString
    /api/policy/access?tenant=%E2%80%AE&kind=role /api/policy/access?kind=toString&tenant=a
    /api/activity?hours=NaN /api/activity?hours=1e1`),
  ...words(`
    since=x since=2026-99-99 until=9999-12-31T99:00Z limit=1e9 limit=-1 before=99999999999999 __proto__=1
  `).map((query) => `/api/records?${query}`),
  ...[...words('constructor=1 tenant=%00 tenant=acme&tenant=beta'), `tool=${'x'.repeat(9000)}`].map(
    (query) => `/api/evidence?${query}`,
  ),
  ...words('99999999999999 -1 1/proof?older=999999 1/proof?older=x __proto__').map(
    (id) => `/api/records/${id}`,
  ),
  ...words('9999-99-99-1 2026-11-24-999999999999999 0000-00-00-0 constructor').map(
    (id) => `/api/calls/${id}`,
  ),
]

/** Other spellings of /api/blocks. */
export const spellings = words(String.raw`
  //api/blocks /api//blocks /api/./blocks /api/%62locks /API/blocks /api/blocks/ /api/x/../blocks /api/blocks;x
  /api\blocks`)

export const block = JSON.stringify({ kind: 'principal', pattern: 'nobody', for_sec: 60, reason: 'a test' })

/** Each departs in one thing from the change that the page of the session `mine` would send to the path. */
export function manipulations(
  origin: string,
  mine: SessionClient,
  theirs: SessionClient,
  path: string,
): Readonly<Record<string, Asking>> {
  const change: Asking = { method: 'POST', body: block }
  const claims = (given: object) => proofOf(mine.key, change, path, given)
  const proof = proofOf(mine.key, change, path)
  const now = Date.now()
  const proofs = {
    'without a proof': '',
    'with a proof that is not one': 'e30.AAAA',
    'with a proof cut short': proof.slice(0, -2),
    'with two proofs': `${claims({ path: '/api/x' })}, ${proof}`,
    'with a proof by another key': proofOf(theirs.key, change, path),
    'with a proof by a key of nobody': proofOf(newSessionKey().privateKey, change, path),
    'with a signature by DER': `${proof.split('.')[0]}.MEUCIQ`,
    'with a proof of another method': claims({ method: 'GET' }),
    'with a proof of another path': claims({ path: '/api/policy/reload' }),
    'with a proof of the whole URL': claims({ path: origin + path }),
    'with a proof of the path and a query': claims({ path: `${path}?x=1` }),
    'with a proof of another body': proofOf(mine.key, { ...change, body: '{}' }, path),
    'with a proof from the past': claims({ at: now - 61_000 }),
    'with a proof from the future': claims({ at: now + 61_000 }),
    'with a proof of no time': claims({ at: Number.NaN }),
    'with a proof of a text as time': claims({ at: `${now}` }),
    'with a short nonce': claims({ nonce: 'short' }),
    'without a nonce': claims({ nonce: undefined }),
    'with a claim too many': claims({ more: 1 }),
  }
  const cookies = {
    'with two cookies of the name': `${theirs.cookie}; ${mine.cookie}`,
    'with the cookie cut short': mine.cookie.slice(0, -3),
    'with a cookie of another prefix': mine.cookie.replace('__Host-', '__Secure-'),
    'with the cookie of another session': theirs.cookie,
    'with the cookie in quotes': mine.cookie.replace('=', '="'),
    'without a cookie': '',
  }
  const others: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'without a CSRF token': { 'x-svc-csrf': '' },
    'with the CSRF token of another session': { 'x-svc-csrf': theirs.csrf },
    'with the CSRF token twice': { 'x-svc-csrf': `${mine.csrf}, ${mine.csrf}` },
    'from another origin': { origin: 'http://localhost:1' },
    'from an origin of the name alone': { origin: 'http://localhost' },
    'from an opaque origin': { origin: 'null' },
    'from another site': { 'sec-fetch-site': 'cross-site' },
    'from another port of the host': { 'sec-fetch-site': 'same-site' },
    'from two sites': { 'sec-fetch-site': 'same-origin, cross-site' },
    'for a rebound name': { host: 'attacker.example' },
    'for a rebound name behind a proxy': {
      host: 'attacker.example',
      'x-forwarded-host': new URL(origin).host,
    },
    'as a form': { 'content-type': 'application/x-www-form-urlencoded' },
    'as text': { 'content-type': 'text/plain;application/json' },
    'as two types': { 'content-type': 'text/plain, application/json' },
    'in a coding': { 'content-encoding': 'gzip' },
    'with a bearer token of nobody': { authorization: 'Bearer nobody-nobody-nobody' },
    'with Basic': { authorization: 'Basic bm9ib2R5Om5vYm9keQ==' },
  }
  const headers = {
    ...others,
    ...mapped(proofs, (value) => ({ 'x-svc-proof': value })),
    ...mapped(cookies, (cookie) => ({ cookie })),
  }
  return {
    ...mapped(headers, (one) => ({ headers: one })),
    'by a method in a header': { method: 'GET', headers: { 'x-http-method-override': 'POST' } },
    'with a body too large': { body: JSON.stringify({ kind: 'x'.repeat(20_000) }) },
    'with two bodies': { body: `${block}${block}` },
    'with a key twice': { body: `{"kind":"principal",${block.slice(1)}` },
  }
}

function mapped<T, U>(given: Readonly<Record<string, T>>, change: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, change(value)]))
}
