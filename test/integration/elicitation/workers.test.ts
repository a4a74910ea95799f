// Calls that wait for a person at a gateway of several workers: the response to an elicitation and the vote come to any of them.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { ask } from '../../app/admin/rig.js'
import { Running } from '../../support/gateway-process.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { type HandClient, startHandClient } from './hand-client.js'
import { adminToken, type Billing, bothModes, idIn, startBilling, waiting } from './rig.js'

const accept = { result: { action: 'accept' } }

describe('a call that waits for a person, at a gateway of two workers', function () {
  this.timeout(120_000)
  let billing: Billing
  let folder: TemporaryDir
  let running: Running
  let urls: { readonly url: string; readonly adminUrl: string }
  const pids: number[] = []

  before(async () => {
    billing = await startBilling()
    folder = new TemporaryDir()
    generateKeyFile(join(folder.path, 'key'))
    const { env, ...sections } = waiting
    const policy = {
      tenant: 'acme',
      port: 0,
      targets: { billing: `mcp+${billing.urls.handshake}` },
      audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: 'file://key' } },
      quotas: { adapter: 'lmdb' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      ...sections,
    }
    writeFileSync(join(folder.path, 'policy.json'), JSON.stringify(policy))
    const args = ['--policy', join(folder.path, 'policy.json'), '--dir', join(folder.path, 'state')]
    running = new Running([...args, '--workers', '2'], env)
    for (let i = 0; i < 2; i++) pids.push((await running.line('worker started')).pid ?? 0)
    const { url = '', adminUrl = '' } = await running.line('listening')
    urls = { url, adminUrl }
  })
  after(async () => {
    running.child.kill('SIGTERM')
    await running.exit
    await billing[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })
  beforeEach(() => {
    billing.refunds.length = 0
  })

  const approve = async (id: string) => {
    const { status, text } = await ask(urls.adminUrl, `/api/escalations/${id}/votes`, {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
      body: '{"vote":"approve"}',
    })
    expect(status, text).to.equal(200)
  }
  /** Each has a connection of its own while it is held. */
  const hold = async (client: HandClient, name: string, amounts: readonly number[]) =>
    Promise.all(
      amounts.map(async (amount) => {
        const call = await client.call(name, { amount })
        const { id = '', params } = await call.request('elicitation/create')
        return { amount, call, id, escalation: idIn(params) }
      }),
    )

  for (const path of ['/mcp/billing', '/mcp']) {
    const name = path === '/mcp' ? 'billing__refund' : 'refund'

    it(`runs once it is approved, and ends once it is declined, at whichever worker: ${path}`, async () => {
      const client = await startHandClient(`${urls.url}${path}`, {}, bothModes)
      const held = await hold(client, name, [1, 2, 3, 4, 5, 6, 7, 8])
      const [declined, accepted] = [held.slice(0, 4), held.slice(4)]
      for (const { id } of declined)
        expect((await client.post({ jsonrpc: '2.0', id, result: { action: 'decline' } })).status).to.equal(
          202,
        )
      for (const { id } of accepted) await client.post({ jsonrpc: '2.0', id, ...accept })
      for (const { call } of declined)
        expect(JSON.stringify(await call.response())).to.contain('ESCALATION_PENDING')
      for (const { escalation } of accepted) await approve(escalation)
      for (const { call, amount } of accepted)
        expect(JSON.stringify(await call.response())).to.contain(`refunded ${amount}`)
      expect(billing.refunds.toSorted()).to.deep.equal([5, 6, 7, 8])
    })
  }

  it('keeps its approval if its worker is killed, and runs once when it is repeated', async () => {
    const client = await startHandClient(`${urls.url}/mcp/billing`, {}, bothModes)
    const amounts = [11, 12, 13, 14, 15, 16]
    const held = await hold(client, 'refund', amounts)
    process.kill(pids.at(-1) ?? 0, 'SIGKILL')
    await running.line('worker started')
    for (const { escalation } of held) await approve(escalation)
    const isLost = ({ call }: (typeof held)[number]) =>
      Promise.race([
        call.ended.then(() => !call.messages.some((one) => 'result' in one)),
        call.response().then(() => false),
      ])
    let lost = 0
    for (const one of held) {
      if (!(await isLost(one))) continue
      lost++
      const again = await client.call('refund', { amount: one.amount })
      expect(JSON.stringify(await again.response())).to.contain(`refunded ${one.amount}`)
    }
    expect(lost).to.be.at.least(1)
    expect(billing.refunds.toSorted()).to.deep.equal(amounts)
  })
})
