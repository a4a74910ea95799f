import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { type AdminRig, adminToken, startAdminRig } from './rig.js'

const approve = { vote: 'approve' }

function ids(response: { json: Record<string, unknown> }): string[] {
  return (response.json['escalations'] as { id: string }[]).map(({ id }) => id)
}

describe('escalations on the admin listener', () => {
  describe('with the admin token, and no OIDC', () => {
    let rig: AdminRig

    beforeEach(async () => {
      rig = await startAdminRig()
    })

    afterEach(() => rig[Symbol.asyncDispose]())

    it('are listed newest first, of every tenant', async () => {
      rig.service.open('E1')
      rig.service.open('E2', { tenant: 'globex' })
      const response = await rig.admin('/api/escalations')
      expect(response.status).to.equal(200)
      expect(ids(response)).to.deep.equal(['E2', 'E1'])
      expect(response.json['more']).to.equal(false)
    })

    it('are listed by status, tenant and number', async () => {
      rig.service.open('E1')
      rig.service.open('E2', { tenant: 'globex' })
      rig.service.open('E3', { status: 'approved', decidedBy: 'votes' })
      rig.service.open('E4')
      expect(ids(await rig.admin('/api/escalations?status=pending'))).to.deep.equal(['E4', 'E2', 'E1'])
      expect(ids(await rig.admin('/api/escalations?status=approved'))).to.deep.equal(['E3'])
      expect(ids(await rig.admin('/api/escalations?tenant=globex'))).to.deep.equal(['E2'])
      const two = await rig.admin('/api/escalations?limit=2')
      expect(ids(two)).to.deep.equal(['E4', 'E3'])
      expect(two.json['more']).to.equal(true)
    })

    for (const query of [
      'status=open',
      'status=',
      'limit=0',
      'limit=501',
      'limit=1e2',
      'stauts=pending',
      'status=pending&status=approved',
    ]) {
      it(`are not listed for ?${query}`, async () => {
        const { status, json } = await rig.admin(`/api/escalations?${query}`)
        expect(status).to.equal(400)
        expect(json['error']).to.equal('BAD_REQUEST')
      })
    }

    it('are shown with all that a reviewer needs', async () => {
      rig.service.open('E1', {
        detail: 'refund_payment changes something',
        args: '{"amount":5}',
        approvalSetId: 'finance',
        votes: [
          {
            reviewer: 'eve',
            roles: ['auditor'],
            vote: 'reject',
            comment: 'why?',
            proof: 'user_token',
            at: 0,
          },
        ],
      })
      const { json } = await rig.admin('/api/escalations/E1')
      expect(json).to.deep.equal({
        id: 'E1',
        status: 'pending',
        tenant: 'acme',
        server: 'billing',
        tool: 'refund_payment',
        reference: 'mcp://billing/refund_payment@1.0.0',
        principal: 'user:bob@example.com',
        reason: 'high_risk_side_effect',
        detail: 'refund_payment changes something',
        args: '{"amount":5}',
        input_sha256: sha256Hex('{"amount":5}'),
        approval_note:
          'An approval proves possession of the admin token and not who approved: without authn.oidc the gateway knows no person.',
        severity: 'high',
        strategy: 'single_approver',
        approval_set_id: 'finance',
        votes: [
          {
            reviewer: 'eve',
            roles: ['auditor'],
            vote: 'reject',
            comment: 'why?',
            proof: 'user_token',
            at: '1970-01-01T00:00:00.000Z',
          },
        ],
        timeout_action: 'auto_reject',
        created_at: '2026-01-02T03:04:05.000Z',
        expires_at: '2026-01-02T03:19:05.000Z',
        used: false,
        fingerprint: 'f'.repeat(64),
        trace_id: '1'.repeat(32),
      })
    })

    it('are decided by its vote', async () => {
      rig.service.open('E1')
      const { status, json } = await rig.vote('E1', { vote: 'approve', comment: 'seen the invoice' })
      expect(status).to.equal(200)
      expect(json).to.include({ id: 'E1', status: 'approved', decided_by: 'votes' })
      expect(rig.service.cases.get('E1')?.votes).to.deep.include.members([
        { ...rig.service.cases.get('E1')?.votes[0], reviewer: 'admin', comment: 'seen the invoice' },
      ])
    })

    it('are voted on together, each with the hash of what it shows, and each for itself', async () => {
      rig.service.open('E1', { args: '{"amount":5}' })
      rig.service.open('E2', { args: '{"te…', isTruncated: true })
      rig.service.inputs.set('E2', { text: '{"text":"long"}', sha256: 'a'.repeat(64) })
      rig.service.open('E3', { args: '{"amount":6}' })
      rig.service.open('E4')
      rig.service.open('E5', { status: 'rejected' })
      const escalations = [
        { id: 'E1', input_sha256: sha256Hex('{"amount":5}') },
        { id: 'E2', input_sha256: sha256Hex('{"te…') },
        { id: 'E3' },
        { id: 'E4' },
        { id: 'E5' },
        { id: 'E9' },
      ]
      const { status, json } = await rig.admin('/api/escalations/votes', {
        method: 'POST',
        headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({ vote: 'approve', comment: 'all fine', escalations }),
      })
      expect(status).to.equal(200)
      const results = json['results'] as {
        id: string
        escalation?: object
        refused?: Record<string, string>
      }[]
      expect(
        results.map(({ id, refused }) => [id, refused?.['error'], refused?.['denial_reason']]),
      ).to.deep.equal([
        ['E1', undefined, undefined],
        ['E2', 'BAD_REQUEST', 'input_not_seen'],
        ['E3', 'BAD_REQUEST', 'input_not_seen'],
        ['E4', undefined, undefined],
        ['E5', 'IDEMPOTENT_DUPLICATE', 'decided'],
        ['E9', 'TARGET_NOT_FOUND', undefined],
      ])
      expect(results[0]?.escalation).to.include({ id: 'E1', status: 'approved' })
      expect([...rig.service.cases.values()].map((one) => one.status)).to.deep.equal([
        'approved',
        'pending',
        'pending',
        'approved',
        'rejected',
      ])
      const refusals = rig.gateway.records().filter(({ tool }) => tool === 'admin/vote_on_several@1')
      expect(refusals.map((record) => [record.escalation_id, record.error])).to.deep.equal([
        ['E2', 'BAD_REQUEST'],
        ['E3', 'BAD_REQUEST'],
        ['E5', 'IDEMPOTENT_DUPLICATE'],
        ['E9', 'TARGET_NOT_FOUND'],
      ])
    })

    for (const [what, escalations] of [
      ['none', []],
      ['one twice', [{ id: 'E1' }, { id: 'E1' }]],
      ['a malformed id', [{ id: '../E1' }]],
      ['51', Array.from({ length: 51 }, (_, n) => ({ id: `E${n}` }))],
    ] as const) {
      it(`are not voted on together if the list has ${what}`, async () => {
        const { status, json } = await rig.admin('/api/escalations/votes', {
          method: 'POST',
          headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
          body: JSON.stringify({ vote: 'reject', escalations }),
        })
        expect([status, json['error']]).to.deep.equal([400, 'BAD_REQUEST'])
      })
    }

    it('are not found under an unknown or malformed id', async () => {
      for (const id of ['E9', 'E'.repeat(129), 'E%31', '..', 'E1.x']) {
        expect((await rig.admin(`/api/escalations/${id}`)).status).to.equal(404)
        expect((await rig.vote(id, approve)).status).to.equal(404)
      }
    })

    it('cannot be voted on twice by one reviewer', async () => {
      rig.service.open('E1', { strategy: 'human_quorum' })
      expect((await rig.vote('E1', approve)).status).to.equal(200)
      const { status, json } = await rig.vote('E1', approve)
      expect(status).to.equal(409)
      expect(json).to.include({
        error: 'IDEMPOTENT_DUPLICATE',
        denial_type: 'escalation',
        denial_reason: 'already_voted',
        escalation_id: 'E1',
        escalation_status: 'pending',
      })
    })

    it('have their whole input at a separate path, with its hash as the entity tag', async () => {
      rig.service.open('E1', { args: '{"te…', isTruncated: true })
      rig.service.open('E2')
      rig.service.inputs.set('E1', { text: '{"text":"long"}', sha256: 'a'.repeat(64) })
      const { status, text, headers } = await rig.admin('/api/escalations/E1/input')
      expect([status, text]).to.deep.equal([200, '{"text":"long"}'])
      expect(headers.get('etag')).to.equal(`"${'a'.repeat(64)}"`)
      expect(headers.get('cache-control')).to.equal('no-store')
      expect((await rig.admin('/api/escalations/E1')).json).to.include({ args_truncated: true })
      expect((await rig.admin('/api/escalations/E1')).text).not.to.contain('a'.repeat(64))
      for (const path of ['E2/input', 'E9/input', 'E1/input/', 'E1/inputs']) {
        expect((await rig.admin(`/api/escalations/${path}`)).status).to.equal(404)
      }
    })

    it('need the hash of an input that the preview truncates before they are approved', async () => {
      rig.service.open('E1', { isTruncated: true })
      rig.service.inputs.set('E1', { text: '{}', sha256: 'a'.repeat(64) })
      for (const body of [approve, { ...approve, input_sha256: 'b'.repeat(64) }]) {
        const { status, json } = await rig.vote('E1', body)
        expect(status).to.equal(400)
        expect(json).to.include({ error: 'BAD_REQUEST', denial_reason: 'input_not_seen' })
      }
      const { status } = await rig.vote('E1', { ...approve, input_sha256: 'a'.repeat(64) })
      expect(status).to.equal(200)
    })

    it('cannot be voted on after they are decided', async () => {
      rig.service.open('E1', { status: 'rejected' })
      const { status, json } = await rig.vote('E1', approve)
      expect(status).to.equal(409)
      expect(json).to.include({ denial_reason: 'decided', escalation_status: 'rejected' })
    })

    it('have the status that another vote has just given them', async () => {
      rig.service.open('E1')
      const vote = rig.service.vote.bind(rig.service)
      rig.service.vote = async (...cast) => {
        rig.service.open('E1', { status: 'rejected' })
        return vote(...cast)
      }
      expect((await rig.vote('E1', approve)).json).to.include({ escalation_status: 'rejected' })
    })

    const bad: [string, unknown][] = [
      ['is not JSON', '{'],
      ['names a member twice', '{"vote":"approve","vote":"reject"}'],
      ['is a list', ['approve']],
      ['is null', 'null'],
      ['has no vote', {}],
      ['has another vote', { vote: 'abstain' }],
      ['has an unknown member', { vote: 'approve', roles: ['cfo'] }],
      ['has a comment that is not text', { vote: 'approve', comment: 7 }],
      ['has a hash that is not text', { vote: 'approve', input_sha256: 7 }],
      ['has a comment too long', { vote: 'approve', comment: 'x'.repeat(1001) }],
      ['is empty', ''],
    ]
    for (const [name, body] of bad) {
      it(`are not voted on by a body that ${name}`, async () => {
        rig.service.open('E1')
        const { status, json } = await rig.vote('E1', body)
        expect(status).to.equal(400)
        expect(json['error']).to.equal('BAD_REQUEST')
        expect(rig.service.cases.get('E1')?.votes).to.deep.equal([])
      })
    }

    it('are not voted on by a body over 16 KiB', async () => {
      rig.service.open('E1')
      const { status, json } = await rig.vote('E1', { vote: 'approve', comment: 'x'.repeat(17_000) })
      expect(status).to.equal(413)
      expect(json['error']).to.equal('PAYLOAD_TOO_LARGE')
    })

    it('cannot be voted on in the content types that a web form can send', async () => {
      rig.service.open('E1')
      for (const type of [
        'text/plain',
        'application/x-www-form-urlencoded',
        'application/jsonx',
        undefined,
      ]) {
        const { status } = await rig.admin('/api/escalations/E1/votes', {
          method: 'POST',
          headers: {
            authorization: `Bearer ${adminToken}`,
            ...(type === undefined ? {} : { 'content-type': type }),
          },
          body: JSON.stringify(approve),
        })
        expect(status).to.equal(400)
      }
    })

    it('are unavailable while their store is down, without details of the store', async () => {
      rig.service.open('E1')
      rig.service.isDown = true
      for (const response of [
        await rig.admin('/api/escalations'),
        await rig.admin('/api/escalations/E1'),
        await rig.vote('E1', approve),
      ]) {
        expect(response.status).to.equal(503)
        expect(response.json['error']).to.equal('STORE_UNAVAILABLE')
        expect(response.text).not.to.contain('secret-host')
      }
      expect(rig.gateway.log.lines.filter(({ level }) => level === 'error')).to.have.length(3)
    })
  })

  describe('under a policy that escalates nothing', () => {
    it('are an empty list', async () => {
      await using rig = await startAdminRig({ plugins: [] })
      expect((await rig.admin('/api/escalations')).json).to.deep.equal({ escalations: [], more: false })
      expect((await rig.admin('/api/escalations/E1')).status).to.equal(404)
      expect((await rig.vote('E1', approve)).status).to.equal(404)
    })
  })

  it('need a token even if calls do not need one', async () => {
    await using rig = await startAdminRig({
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { reviewer: ['x'] } },
    })
    rig.service.open('E1')
    expect((await rig.admin('/api/escalations', { headers: {} })).status).to.equal(401)
  })
})
