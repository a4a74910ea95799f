// What one worker begins and another ends. Every request has a connection of its own, and connections go to the workers in
// turn, so two requests in a row are at two workers. Each case runs twice, so that each worker is the first once.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { TestAuthority } from '../../support/certificates.js'
import { runSvc } from '../../support/command.js'
import { Running } from '../../support/gateway-process.js'
import { heldUpstream } from '../../support/held-upstream.js'
import { attributesOf, OtlpReceiver } from '../../support/otlp-receiver.js'
import { type RedisServer, startRedis, until } from '../../support/redis.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'
import { startWebhook, type Webhook } from '../../support/webhook.js'

const token = 'the-token-of-this-one-test'

interface Sending {
  readonly method?: 'GET'
  readonly headers?: Record<string, string>
  readonly body?: object
}

interface Reply {
  readonly status: number
  readonly headers: Record<string, unknown>
  readonly text: string
}

for (const store of ['lmdb', 'redis'] as const) {
  // With TLS, a watched policy and OTLP in one of the two.
  const isLocal = store === 'lmdb'

  describe(`two workers with their state in ${store}${isLocal ? ', over TLS' : ''}`, function () {
    this.timeout(120_000)
    let home: string
    let policy: string
    let upstream: TestUpstream
    let redis: RedisServer | undefined
    let otlp: OtlpReceiver
    let hook: Webhook
    let gateway: Running
    let url: string
    let adminUrl: string
    let ca: string | undefined
    const held = heldUpstream()

    function send(to: string, { method, headers = {}, body = {} }: Sending = {}): Promise<Reply> {
      return new Promise((resolve, reject) => {
        const how = {
          method: method ?? 'POST',
          agent: false,
          headers: { 'content-type': 'application/json', ...headers },
        }
        const make = to.startsWith('https') ? tlsRequest : request
        const sending = make(to, { ...how, ca, timeout: 30_000 }, (response) => {
          let text = ''
          response.setEncoding('utf8').on('data', (piece: string) => {
            text += piece
          })
          response.once('error', reject).once('end', () => {
            resolve({ status: response.statusCode ?? 0, headers: response.headers, text })
          })
        })
        sending.once('timeout', () => sending.destroy(new Error('no response in time')))
        sending.once('error', reject)
        sending.end(method === undefined ? JSON.stringify(body) : undefined)
      })
    }
    const call = (tool: string, sending?: Sending) => send(`${url}/mcp/files/${tool}@1`, sending)
    const admin = (...args: string[]) =>
      runSvc(...args, '--admin', adminUrl, '--token-ref', `file://${join(home, 'token')}`, '--json')
    /** On a connection of its own, so that two in a row are at two workers. */
    const adminGet = async (path: string) => {
      const headers = { authorization: `Bearer ${token}` }
      return JSON.parse((await send(`${adminUrl}${path}`, { method: 'GET', headers })).text)
    }
    const adminJson = async (...args: string[]) => JSON.parse((await admin(...args)).out)

    const write = (limit: number): void => {
      const place = redis === undefined ? {} : { redisUrl: redis.url }
      const sections = {
        tenant: 'acme',
        port: 0,
        targets: { files: upstream.url, local: { command: process.execPath, args: ['-e', ''] } },
        audit: {
          gatewayName: 'gw',
          gatewayVersion: '1.0.0',
          signer: { keyRef: 'file://key' },
          checkpointIntervalMs: 100,
        },
        entitlements: {
          default_plan: 'free',
          plans: { free: { calls_per_day: limit } },
          tenants: { acme: { plan: 'free', allowlist: ['*/*'] } },
        },
        authn: { allowUnauthenticated: true },
        quotas: { adapter: store, ...place },
        dedupe: { enabled: true, ...place },
        security: { egress_allowlist: [], side_effects: { approve_high_risk: true } },
        enforcement: { escalate_on: ['egress_violation'], escalations: { adapter: store, ...place } },
        admin: { port: 0, tokenRef: 'file://token' },
        notices: [{ url: hook.url, events: ['escalation.opened'] }],
        shadow: { policy: 'shadow.json', max_share: 1 },
        ...(isLocal ? { server: { tls: { cert: 'file://gateway.crt', key: 'file://gateway.pem' } } } : {}),
      }
      writeFileSync(policy, JSON.stringify(sections))
    }

    before(async () => {
      home = mkdtempSync(join(tmpdir(), 'svc-test-'))
      policy = join(home, 'policy.yaml')
      generateKeyFile(join(home, 'key'))
      writeFileSync(join(home, 'token'), token, { mode: 0o600 })
      if (isLocal) {
        const authority = new TestAuthority(home)
        const { cert, key } = authority.server()
        ca = authority.root.cert
        writeFileSync(join(home, 'gateway.crt'), cert)
        writeFileSync(join(home, 'gateway.pem'), key, { mode: 0o600 })
      }
      upstream = await startUpstream((asked, response) => {
        if (asked.path.includes('slow')) held.response(asked, response)
        else response.setHeader('content-type', 'application/json').end('{}')
      })
      redis = isLocal ? undefined : await startRedis()
      otlp = await OtlpReceiver.start()
      hook = await startWebhook()
      write(1_000)
      writeFileSync(
        join(home, 'shadow.json'),
        readFileSync(policy, 'utf8')
          .replace('"*/*"', '"files/other"')
          .replace(/,"shadow":[^}]*}/, ''),
      )
      const env = {
        OTEL_EXPORTER_OTLP_ENDPOINT: otlp.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
        OTEL_BSP_SCHEDULE_DELAY: '100',
        OTEL_METRIC_EXPORT_INTERVAL: '500',
        OTEL_METRIC_EXPORT_TIMEOUT: '500',
        OTEL_RESOURCE_ATTRIBUTES: 'service.instance.id=host-7',
      }
      gateway = new Running(['--policy', policy, '--workers', '2', '--watch'], isLocal ? env : {})
      const line = await gateway.line('listening')
      url = String(line.url)
      adminUrl = String(line.adminUrl)
    })

    after(async () => {
      if (gateway.child.exitCode === null) gateway.child.kill('SIGTERM')
      await gateway.exit
      await upstream[Symbol.asyncDispose]()
      await redis?.[Symbol.asyncDispose]()
      await otlp[Symbol.asyncDispose]()
      await hook[Symbol.asyncDispose]()
      rmSync(home, { recursive: true, force: true })
    })

    it('repeats at one the response that the other got', async () => {
      for (const key of ['a', 'b']) {
        const headers = { 'idempotency-key': key }
        const marks = []
        for (let i = 0; i < 2; i++) marks.push((await call('write', { headers })).headers['x-dedupe'])
        expect(marks).to.deep.equal(['first', 'replay'])
      }
      expect(upstream.calls.filter(({ path }) => path.includes('write'))).to.have.length(2)
    })

    it('holds at one a call with the key of a call that runs at the other', async () => {
      for (const key of ['c', 'd']) {
        const headers = { 'idempotency-key': key }
        const first = call('slow', { headers })
        const response = await held.next()
        const second = call('slow', { headers })
        response.setHeader('content-type', 'application/json').end('{}')
        const marks = [(await first).headers['x-dedupe'], (await second).headers['x-dedupe']]
        expect(marks).to.deep.equal(['first', 'replay'])
      }
    })

    it('sends a held call when the vote arrives at the other', async () => {
      for (const n of [1, 2]) {
        const body = { url: 'https://evil.example', n }
        const waiting = call('fetch', { headers: { 'x-escalation-wait': '50' }, body })
        let id = ''
        await until(async () => {
          const { escalations } = await adminJson('escalations', 'list')
          id = escalations[0]?.id ?? ''
          return id !== ''
        })
        expect((await adminJson('escalations', 'approve', id)).status).to.equal('approved')
        expect((await waiting).status).to.equal(200)
        expect((await adminJson('escalations', 'show', id)).used).to.equal(true)
      }
    })

    it('names in the notices of both the port of the admin listener, which the policy leaves open', async () => {
      for (const n of [3, 4]) await call('fetch', { body: { url: 'https://evil.example', n } })
      await hook.until(4)
      const { port, protocol } = new URL(adminUrl)
      const pages = hook.deliveries.map(({ body }) => new URL(JSON.parse(body).data.url).origin)
      expect(new Set(pages)).to.deep.equal(new Set([`${protocol}//localhost:${port}`]))
    })

    it('shows an operator at each what both know: waits of calls, limits in use, the URL for clients', async () => {
      const paths: string[] = []
      for (const tool of ['seen-one', 'seen-two']) await call(tool)
      for (const { id, tool } of (await adminGet('/api/calls?limit=20')).calls)
        if (tool.startsWith('seen-')) paths.push(`/api/calls/${id.replace(':', '-')}`)
      expect(paths).to.have.length(2)
      for (const path of paths) {
        for (const shown of [await adminGet(path), await adminGet(path)])
          expect(shown.stages, path).to.be.an('array').that.is.not.empty
      }
      for (const { ready, parts, limits } of [await adminGet('/api/health'), await adminGet('/api/health')]) {
        expect({
          ready,
          down: parts.filter(({ state }: { state: string }) => state === 'down'),
        }).to.deep.equal({
          ready: true,
          down: [],
        })
        const keys = limits
          .map(({ key }: { key: string }) => key)
          .filter((key: string) => key.includes('seen-'))
        expect(keys.toSorted()).to.deep.equal(['mcp://files/seen-one', 'mcp://files/seen-two'])
      }
      for (const { servers } of [await adminGet('/api/servers'), await adminGet('/api/servers')]) {
        const states = servers.map(({ server, state }: Record<string, string>) => [server, state])
        expect(states).to.deep.equal([
          ['files', 'unknown'],
          ['local', 'idle'],
        ])
      }
      for (const { url: shown } of [await adminGet('/api/clients'), await adminGet('/api/clients')])
        expect(shown).to.equal(url)
    })

    it('refuses at both what is blocked at one, and serves it when the block is lifted', async () => {
      const set = ['block', '--tool', 'files/blocked', '--for', '1h', '--reason', 'test']
      const { block, acknowledged, silent } = await adminJson(...set)
      expect(acknowledged).to.have.length(2)
      expect(silent).to.deep.equal([])
      const statuses = []
      for (let i = 0; i < 2; i++) statuses.push((await call('blocked')).status)
      await adminJson('block', 'lift', block.id)
      for (let i = 0; i < 2; i++) statuses.push((await call('blocked')).status)
      expect(statuses).to.deep.equal([403, 403, 200, 200])
    })

    it('counts in the status of a shadow policy the calls of both', async () => {
      const status = () => adminJson('policy', 'shadow')
      const { judged } = await status()
      for (let i = 0; i < 4; i++) expect((await call('read')).status).to.equal(200)
      await until(async () => (await status()).judged === judged + 4)
      for (let i = 0; i < 2; i++) {
        const { differences } = await status()
        const reads = differences.filter(({ tool }: { tool: string }) => tool.includes('read'))
        expect(reads.map(({ calls }: { calls: number }) => calls)).to.deep.equal([4])
      }
    })

    it('loads a policy in both, from the watched file and over the admin listener', async () => {
      const limits = async () => {
        const found = []
        for (let i = 0; i < 2; i++) found.push((await call('read')).headers['ratelimit-policy'])
        return found.map((field) => /q=(\d+)/.exec(String(field))?.[1])
      }
      write(2_000)
      await gateway.line('policy reloaded')
      expect(await limits()).to.deep.equal(['2000', '2000'])
      write(3_000)
      const headers = { authorization: `Bearer ${token}` }
      // The watch may be faster; what is in force counts.
      expect((await send(`${adminUrl}/api/policy/reload`, { headers })).status).to.equal(200)
      expect(await limits()).to.deep.equal(['3000', '3000'])
    })

    if (isLocal) {
      it('exports over OTLP the spans and metrics of each under a name of its own, and what the main process knows of them', async () => {
        for (let i = 0; i < 4; i++) await call('read')
        const instances = () =>
          new Set(otlp.resources.map((one) => attributesOf(one)['service.instance.id'] as string))
        await otlp.until(() => instances().size >= 3 && otlp.spans.length >= 4)
        expect([...instances()].sort()).to.deep.equal(['host-7/0', 'host-7/1', 'host-7/main'])
        await otlp.until(() => otlp.logs.some(({ body }) => body.stringValue === 'worker started'))
        const figure = (name: string) => otlp.metrics.get(name)
        await otlp.until(() => figure('svc_workers')?.gauge?.dataPoints[0]?.asDouble === 2)
        expect(figure('svc_worker_restarts_total')?.sum?.dataPoints[0]?.asDouble).to.equal(0)
      })
    }

    it('ends the calls of both when it drains under load, and has a whole log', async () => {
      const before = upstream.calls.length
      const calls = Array.from({ length: 20 }, (_, i) => call('slow', { body: { i } }))
      await until(async () => upstream.calls.length === before + 20)
      gateway.child.kill('SIGTERM')
      for (let i = 0; i < 20; i++) {
        const response = await held.next()
        response.setHeader('content-type', 'application/json').end('{}')
      }
      const statuses = (await Promise.all(calls)).map(({ status }) => status)
      expect(new Set(statuses)).to.deep.equal(new Set([200]))
      expect(await gateway.exit).to.equal(0)
      const { out, code } = await runSvc('audit', 'verify', join(home, '.svc', 'audit'), '--json')
      expect(code, out).to.equal(0)
    })
  })
}
