import { createPublicKey, verify as verifySignature } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Notice } from '@svc/core'
import { KeyReader } from '@svc/core/secret'
import { LocalDevSigner } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { Webhook as Verifier } from 'standardwebhooks'
import { noticesSchema } from 'svc-sdk/internal/admin/notices/config'
import { readSecret } from 'svc-sdk/internal/admin/notices/signature'
import { WebhookNotices } from 'svc-sdk/internal/admin/notices/webhook-notices'
import { FakeClock } from 'svc-sdk/testing'
import { keepingLogger } from '../../../support/logger.js'
import { type Delivery, startWebhook } from '../../../support/webhook.js'

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const opened: Notice = { type: 'escalation.opened', data: { escalation_id: 'e1' } }

class Rig implements AsyncDisposable {
  readonly home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  readonly directory = join(this.home, 'notices')
  readonly clock = new FakeClock()
  readonly log = keepingLogger()
  readonly signer = LocalDevSigner.fromSeed(Buffer.alloc(32, 5))
  readonly counts = new Map<string, number>()
  #notices: WebhookNotices[] = []

  start(destinations: object[], delays: readonly number[] = [1]): WebhookNotices {
    const notices = new WebhookNotices({
      directory: this.directory,
      clock: this.clock,
      logger: this.log,
      meter: {
        count: (name, by = 1) => void this.counts.set(name, (this.counts.get(name) ?? 0) + by),
        gauge: (name, value) => void this.counts.set(name, value),
      },
      signer: () => this.signer,
      retryDelaysMs: delays,
    })
    const place = { baseDir: this.home, stateDir: this.home, env: { HOOK_SECRET: secret } }
    notices.use(noticesSchema.parse(destinations), new KeyReader(place))
    this.#notices.push(notices)
    return notices
  }

  get queued(): string[] {
    return existsSync(this.directory) ? readdirSync(this.directory) : []
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const notices of this.#notices) await notices.close()
    rmSync(this.home, { recursive: true, force: true })
  }
}

const headersOf = ({ headers }: Delivery): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))

function hasOurSignature({ headers, body }: Delivery, signer: LocalDevSigner): boolean {
  const given = /(?:^| )v1a,(\S+)/.exec(String(headers['webhook-signature']))?.[1] ?? ''
  const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), signer.publicKey])
  return verifySignature(
    null,
    Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`),
    createPublicKey({ key: spki, format: 'der', type: 'spki' }),
    Buffer.from(given, 'base64'),
  )
}

describe('notices to webhooks', () => {
  it('are signed with the secret and with the key of the log', async () => {
    await using hook = await startWebhook()
    await using rig = new Rig()
    rig.clock.set(Date.now())
    rig.start([{ url: hook.url, secretRef: 'env:HOOK_SECRET' }]).send(opened)
    await hook.until(1)
    const [delivery] = hook.deliveries
    if (delivery === undefined) throw new Error('no delivery')
    const payload = new Verifier(secret).verify(delivery.body, headersOf(delivery))
    expect(payload).to.deep.include({ type: 'escalation.opened', data: { escalation_id: 'e1' } })
    expect(hasOurSignature(delivery, rig.signer)).to.equal(true)
    expect(hasOurSignature({ ...delivery, body: `${delivery.body} ` }, rig.signer)).to.equal(false)
  })

  it('go to the webhooks that the policy subscribes to them, and to one that the sender names', async () => {
    await using all = await startWebhook()
    await using policies = await startWebhook()
    await using named = await startWebhook()
    await using rig = new Rig()
    const notices = rig.start([{ url: all.url }, { url: policies.url, events: ['policy.refused'] }])
    notices.send(opened, named.url)
    notices.send({ type: 'policy.refused', data: {} })
    await Promise.all([all.until(2), policies.until(1), named.until(1)])
    expect(policies.deliveries.map(({ body }) => JSON.parse(body).type)).to.deep.equal(['policy.refused'])
    expect(named.deliveries.map(({ body }) => JSON.parse(body).type)).to.deep.equal(['escalation.opened'])
  })

  it('are repeated no sooner than the webhook asks for', async () => {
    const arrivals: number[] = []
    await using hook = await startWebhook((response, number) => {
      arrivals.push(performance.now())
      response.writeHead(number === 1 ? 429 : 204, { 'retry-after': '1' }).end()
    })
    await using rig = new Rig()
    rig.start([{ url: hook.url }]).send(opened)
    await hook.until(2)
    const [first = 0, second = 0] = arrivals
    expect(second - first).to.be.at.least(950)
  })

  it('are not repeated if the webhook is gone', async () => {
    await using hook = await startWebhook((response) => response.writeHead(410).end())
    await using rig = new Rig()
    const notices = rig.start([{ url: hook.url }])
    notices.send(opened)
    await hook.until(1)
    await notices.idle()
    expect(rig.queued).to.deep.equal([])
    expect(rig.counts.get('svc_notices_dropped_total')).to.equal(1)
    expect(rig.counts.get('svc_notices_pending')).to.equal(0)
  })

  it('are repeated with the same id until they are accepted, and then leave the queue', async () => {
    await using hook = await startWebhook((response, number) => {
      if (number === 1) response.writeHead(503).end()
      else if (number === 2) response.writeHead(302, { location: 'http://127.0.0.1:9/' }).end()
      else if (number === 3) response.destroy()
      else response.writeHead(204).end()
    })
    await using rig = new Rig()
    const notices = rig.start([{ url: hook.url }])
    notices.send(opened)
    await hook.until(4)
    await notices.idle()
    expect(rig.queued).to.deep.equal([])
    expect(new Set(hook.deliveries.map(({ headers }) => headers['webhook-id']))).to.have.property('size', 1)
    expect(rig.counts.get('svc_notices_failed_total')).to.equal(3)
  })

  it('survive a restart', async () => {
    await using rig = new Rig()
    await using hook = await startWebhook((response, number) =>
      response.writeHead(number === 1 ? 500 : 200).end(),
    )
    const first = rig.start([{ url: hook.url }], [3_600_000])
    first.send(opened)
    await first.idle()
    await first.close()
    expect(rig.queued).to.have.length(1)
    rig.start([{ url: hook.url }])
    await hook.until(2)
    expect(hook.deliveries[1]?.body).to.equal(hook.deliveries[0]?.body)
  })

  it('are dropped if a reload removes their webhook from the policy', async () => {
    await using rig = new Rig()
    await using hook = await startWebhook((response) => response.writeHead(500).end())
    const first = rig.start([{ url: hook.url }], [3_600_000])
    first.send(opened)
    await first.idle()
    await first.close()
    const second = rig.start([])
    await second.idle()
    expect(hook.deliveries).to.have.length(1)
    expect(rig.queued).to.deep.equal([])
  })

  it('are stored up to one thousand; later ones are dropped, counted and logged', async () => {
    await using rig = new Rig()
    await using hook = await startWebhook((response) => void response.socket?.pause())
    const notices = rig.start([{ url: hook.url }], [3_600_000])
    for (let number = 0; number < 1_003; number++) notices.send(opened)
    expect(rig.counts.get('svc_notices_dropped_total')).to.equal(3)
    expect(rig.counts.get('svc_notices_pending')).to.equal(1_000)
  })

  it('do not show secrets of the URL in the log', async () => {
    await using rig = new Rig()
    await using hook = await startWebhook((response) => response.writeHead(500).end())
    const notices = rig.start([{ url: hook.url }], [3_600_000])
    notices.send(opened)
    await notices.idle()
    expect(rig.log.lines.map(({ message }) => message)).to.deep.equal(['a notice is delivered later'])
    expect(JSON.stringify(rig.log.lines)).to.not.contain('secret-in-url')
  })

  it('do not change other files in their directory', async () => {
    await using rig = new Rig()
    await using hook = await startWebhook()
    const first = rig.start([{ url: hook.url }])
    first.send(opened)
    await hook.until(1)
    await first.idle()
    writeFileSync(join(rig.directory, 'msg_1.json'), '{')
    writeFileSync(join(rig.directory, 'README'), 'x')
    await rig.start([{ url: hook.url }]).idle()
    expect(rig.queued).to.include.members(['msg_1.json', 'README'])
  })
})

describe('the secret of a webhook', () => {
  it('is base64 of 24 to 64 bytes, with or without its prefix', () => {
    expect(readSecret(secret)).to.have.length(32)
    expect(readSecret(secret.slice(6))).to.have.length(32)
    for (const text of ['whsec_', 'whsec_short', 'not base64!', Buffer.alloc(65).toString('base64')])
      expect(() => readSecret(text), text).to.throw(/secret/)
  })
})
