import { expect } from 'chai'
import { newSessionKey } from '../../console/session-client.js'
import type { OpenApi } from './document.js'
import { adminToken, startAdminRig } from './rig.js'

/** A request for each operation, with the rest of its path in place of `{id}`. Those that change something come last. */
const requests: readonly (readonly [operation: string, id?: string | undefined, body?: object])[] = [
  ['get /metrics'],
  ['get /api/openapi.json'],
  ['get /api/session'],
  ['get /api/status'],
  ['get /api/activity'],
  ['get /api/health'],
  ['get /api/policy'],
  [
    'post /api/policy/explain',
    undefined,
    { tenant: 'acme', server: 'billing', tool: 'get_invoice', arguments: {} },
  ],
  ['get /api/servers'],
  ['get /api/clients'],
  ['get /api/escalations'],
  ['get /api/escalations/{id}', 'E1'],
  ['get /api/escalations/{id}/input', 'E1'],
  // The log has no file of the day of E1.
  ['get /api/escalations/{id}/context', 'E1'],
  ['get /api/calls'],
  ['get /api/blocks'],
  ['post /api/escalations/{id}/challenge', 'E1', { vote: 'approve' }],
  [
    'post /api/escalations/challenge',
    undefined,
    { vote: 'approve', escalations: [{ id: 'E1' }, { id: 'E2' }] },
  ],
  ['post /api/passkeys/challenge', undefined, {}],
  [
    'post /api/passkeys',
    undefined,
    { nonce: '0', credential_id: 'AA', client_data_json: 'AA', attestation_object: 'AA' },
  ],
  ['post /api/passkeys/{id}/revoke', 'E1', {}],
  ['post /api/escalations/{id}/votes', 'E1', { vote: 'approve', comment: 'seen' }],
  ['post /api/escalations/votes', '', { vote: 'reject', escalations: [{ id: 'E2' }, { id: 'E9' }] }],
  ['post /api/blocks', undefined, { kind: 'server', pattern: 'x', for_sec: 60, reason: 'a test' }],
  ['post /api/session', undefined, { key: newSessionKey().jwk }],
]

/** Their features have rigs of their own: the tests of these call the operations by `ask`, which judges each response. */
const elsewhere = [
  'delete /api/session',
  'post /api/session/activity',
  'get /api/calls/{id}',
  'get /api/policy/access',
  'get /api/policy/switch',
  'post /api/policy/switch',
  'get /api/evidence',
  'get /api/evidence/estimate',
  'get /api/log',
  'get /api/records',
  'get /api/records/{id}',
  'get /api/records/{id}/proof',
  'get /api/definitions',
  'get /api/policy/shadow',
  'get /api/escalations/{id}/state',
  'get /api/events',
  'post /api/blocks/{id}/lift',
  'post /api/definitions/accept',
  'post /api/policy/reload',
]

describe('the OpenAPI document of the admin API', () => {
  it('describes the responses of the operations, and all of them', async () => {
    await using rig = await startAdminRig()
    rig.service.open('E1', { args: '{"a":1}', detail: 'a rule', approvalSetId: 'finance' })
    rig.service.open('E2', { emergency: { reason: 'down', review: 'open' }, secondSetId: 'managers' })
    rig.service.inputs.set('E1', { text: '{"a":1}', sha256: '0'.repeat(64) })
    const { paths } = (await rig.admin('/api/openapi.json')).json as unknown as OpenApi
    const known = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    )
    expect([...requests.map(([name]) => name), ...elsewhere]).to.have.members(known)
    // The rig judges each response by the document.
    for (const [name, id = '', body] of requests) {
      const [method = '', path = ''] = name.split(' ')
      const { status, text } = await rig.admin(path.replace('{id}', id), {
        method: method.toUpperCase(),
        headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      expect(status, `${name}: ${text}`).to.equal(200)
    }
  })
})
