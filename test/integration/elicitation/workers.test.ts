// Calls that wait for a person at a gateway of several workers: the response to an elicitation and the vote come to any of them.
import { randomInt } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { ask } from '../../app/admin/rig.js'
import { type Running, startWorkers } from '../../support/gateway-process.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { type HandCall, type HandClient, startHandClient } from './hand-client.js'
import { adminToken, type Billing, bothModes, idIn, startBilling, waiting } from './rig.js'

const reply = async (client: HandClient, id: string | number, result: object) => {
  const { status } = await client.post({ jsonrpc: '2.0', id, result })
  expect(status).to.equal(202)
}
const contains = async (call: HandCall, part: string) => {
  const text = JSON.stringify(await call.response())
  expect(text, text).to.contain(part)
}

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
    running = startWorkers(args, env)
    for (let i = 0; i < 2; i++) await newWorker()
    const { url = '', adminUrl = '' } = await running.line('listening')
    urls = { url, adminUrl }
  })
  after(async () => {
    running.child.kill('SIGTERM')
    await running.exit
    await billing[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })
  const newWorker = async () => pids.push((await running.line('worker started')).pid ?? 0)
  /** Of this try alone: an approval of another try is not used, and its calls that are late are not counted. */
  const ownAmounts = (count: number): number[] => {
    const first = randomInt(2 ** 40)
    return Array.from({ length: count }, (_, i) => first + i)
  }
  const refunded = (amounts: readonly number[]) =>
    billing.refunds.filter((amount) => amounts.includes(amount)).toSorted((a, b) => a - b)

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
      const amounts = ownAmounts(8)
      const held = await hold(client, name, amounts)
      const [declined, accepted] = [held.slice(0, 4), held.slice(4)]
      for (const { id } of declined) await reply(client, id, { action: 'decline' })
      for (const { id } of accepted) await reply(client, id, { action: 'accept' })
      for (const { call } of declined) await contains(call, 'ESCALATION_PENDING')
      for (const { escalation } of accepted) await approve(escalation)
      for (const { call, amount } of accepted) await contains(call, `refunded ${amount}`)
      expect(refunded(amounts)).to.deep.equal(amounts.slice(4))
    })
  }

  it('keeps its approval if its worker is killed, and runs once when it is repeated', async () => {
    const client = await startHandClient(`${urls.url}/mcp/billing`, {}, bothModes)
    // So many that the killed worker holds some of them.
    const amounts = ownAmounts(10)
    const held = await hold(client, 'refund', amounts)
    process.kill(pids.at(-1) ?? 0, 'SIGKILL')
    await newWorker()
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
      await contains(again, `refunded ${one.amount}`)
    }
    expect(lost).to.be.at.least(1)
    expect(refunded(amounts)).to.deep.equal(amounts)
  })
})
