// Two gateway processes share a store: a caller waits at one, reviewers vote at the other.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { ask } from '../app/admin/rig.js'
import { Running } from '../support/gateway-process.js'
import { ofSuite } from '../support/parts.js'
import { startRedis } from '../support/redis.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'

const adminToken = 'a-token-of-the-tests-0123456789'

interface Process {
  readonly url: string
  readonly adminUrl: string
}

describe('escalations at two gateway processes', function () {
  this.timeout(60_000)
  let upstream: TestUpstream

  const home = temporaryDir()
  beforeEach(async () => {
    generateKeyFile(join(home.path, 'key'))
    upstream = await startUpstream()
  })

  afterEach(async () => {
    await upstream[Symbol.asyncDispose]()
  })

  function policy(escalations: object): string {
    const file = join(home.path, 'policy.yaml')
    const sections = {
      tenant: 'acme',
      port: 0,
      targets: { files: upstream.url },
      audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: 'file://key' } },
      quotas: { adapter: 'memory' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
      security: { egress_allowlist: [], side_effects: { approve_high_risk: true } },
      enforcement: { escalate_on: ['egress_violation'], escalations },
    }
    writeFileSync(file, JSON.stringify(sections))
    return file
  }

  async function startIn(running: Running): Promise<Process> {
    const { url = '', adminUrl = '' } = await running.line('listening')
    return { url, adminUrl }
  }

  const call = (at: Process, n: number, headers: Record<string, string> = {}) =>
    ask(at.url, '/mcp/files/fetch@1.0.0', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ url: 'https://evil.example', n }),
    })

  const admin = (at: Process, path: string, body?: string) =>
    ask(at.adminUrl, path, {
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body }),
    })

  async function pendingAt(at: Process): Promise<string> {
    for (;;) {
      const { json } = await admin(at, '/api/escalations?status=pending')
      const [found] = json['escalations'] as { id: string }[]
      if (found !== undefined) return found.id
    }
  }

  async function shared(escalations: object): Promise<void> {
    const args = ['--policy', policy(escalations), '--dir', join(home.path, 'state')]
    await using first = new Running(args, { SVC_ADMIN: adminToken })
    await using second = new Running(args, { SVC_ADMIN: adminToken })
    const [here, there] = [await startIn(first), await startIn(second)]

    const waiting = call(here, 1, { 'x-escalation-wait': '50' })
    const id = await pendingAt(there)
    const vote = await admin(there, `/api/escalations/${id}/votes`, '{"vote":"approve"}')
    expect(vote.json).to.include({ status: 'approved' })
    expect((await waiting).status).to.equal(200)

    const other = (await call(here, 2)).json['escalation_id']
    await admin(here, `/api/escalations/${other}/votes`, '{"vote":"approve"}')
    const racing = await Promise.all([here, there, here, there, here, there].map((at) => call(at, 2)))
    expect(racing.filter(({ status }) => status === 200)).to.have.length(1)
    expect(upstream.calls).to.have.length(2)

    // A gateway that is killed loses no pending escalation.
    const last = String((await call(here, 3)).json['escalation_id'])
    first.child.kill('SIGKILL')
    await first.exit
    await admin(there, `/api/escalations/${last}/votes`, '{"vote":"approve"}')
    expect((await call(there, 3, { 'x-escalation-id': last })).status).to.equal(200)
  }

  it('are decided at one for a caller who waits at the other, with a shared directory', () =>
    shared({ adapter: 'lmdb' }))

  describe('with a shared Redis', () => {
    const server = ofSuite(() => startRedis())

    it('are decided at one for a caller who waits at the other', () =>
      shared({ adapter: 'redis', redisUrl: server.url }))
  })
})
