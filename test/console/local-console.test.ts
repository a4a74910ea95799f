import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { COSIGNATURE_TYPE } from '@svc/plugin-audit/internal/log/format/note'
import { formatVkey } from '@svc/plugin-audit/internal/log/keys/signatures'
import { expect } from 'chai'
import { AdminClient } from 'svc-sdk/internal/cli/admin-client'
import { consoleCommand } from 'svc-sdk/internal/cli/console'
import { LocalConsole } from 'svc-sdk/internal/console/local-console'
import { listenOn } from 'svc-sdk/internal/http/listen'
import { FakeClock } from 'svc-sdk/testing'
import { adminToken, ask, localConsoles, startAdminRig } from '../app/admin/rig.js'
import { signerOf } from '../support/audit-log.js'
import { chromiumOfSuite } from '../support/chromium.js'
import { runCommand } from '../support/command.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { readEvents } from './event-reader.js'
import { ready, startConsole } from './rig.js'
import { beginSession, cookieOf, newSessionKey, type SessionClient, sendChange } from './session-client.js'

const connecting = (url: string, token: string) => [
  '--admin',
  url,
  '--token-ref',
  `file://${token}`,
  '--port',
  '0',
]

describe('svc console', () => {
  const browser = chromiumOfSuite()

  it('serves the pages of its own installation with the data of a gateway, to who has the link', async () => {
    await using rig = await startConsole(browser, (home) => ({
      audit: {
        gatewayName: 'edge',
        gatewayVersion: '1.0.0',
        dir: join(home, 'audit'),
        signer: { keyRef: `file://${join(home, 'key')}` },
        checkpointIntervalMs: 100,
      },
    }))
    await rig.gateway.invoke('/mcp/billing/refund@1.0.0', {})
    const token = join(rig.gateway.dir, 'operator-token')
    writeFileSync(token, adminToken)
    const witnessKeys = join(rig.gateway.dir, 'witnesses')
    writeFileSync(witnessKeys, `${formatVkey('w.example/1', COSIGNATURE_TYPE, signerOf(5).publicKey)}\n`)
    let end: () => void = () => undefined
    let print: (text: string) => void = () => undefined
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    const printed = new Promise<string>((resolve) => {
      print = resolve
    })
    const out = async (text: string) => print(text)
    const running = runCommand(
      (io) => consoleCommand({ ...io, out }, () => ended),
      [...connecting(rig.origin, token), '--witness-keys', witnessKeys],
    )
    const { link = '', origin = '' } =
      /^Open (?<link>(?<origin>http:\/\/localhost:\d+)\/\S+)$/m.exec(await printed)?.groups ?? {}
    localConsoles.add(origin)
    for (const [path, headers, status] of [
      ['/console/approvals', {}, 401],
      ['/api/session', {}, 401],
      ['/api/records', {}, 401],
      ['/api/records', { host: 'evil.example' }, 403],
      ['/api/records', { origin: 'https://evil.example' }, 403],
      ['/api/records', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' }, 403],
    ] as const) {
      expect((await ask(origin, path, { headers })).status, path).to.equal(status)
    }
    const page = await browser.open()
    await page.goto(link)
    await ready(page)
    expect(await page.title()).to.equal('Approvals · svc')
    await page.goto(`${origin}/console/log?tool=refund`)
    while ((await page.locator('.log-records tbody a').count()) === 0) await page.reload()
    await page.locator('.log-records tbody a').first().click()
    await page.getByText(/Checked by code from your own installation/).waitFor()
    await page
      .locator('.verify li', { hasText: 'Witness w.example/1' })
      .getByText('it has not cosigned this checkpoint')
      .waitFor()
    expect(await page.content()).to.not.include(adminToken)
    const cookies = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
    const passed = await ask(origin, '/api/evidence?tool=refund', { headers: { cookie: cookies } })
    expect(passed.headers.get('content-security-policy')).to.match(/^sandbox; default-src 'none';/)
    // The link works once: neither here nor in another browser.
    const { jwk } = newSessionKey()
    const begin = (ticket: string) =>
      ask(origin, '/api/session', {
        method: 'POST',
        headers: { authorization: `Bearer ${ticket}` },
        body: JSON.stringify({ key: jwk }),
      })
    for (const ticket of [new URL(link).hash.slice(1), 'wrong', ''])
      expect((await begin(ticket)).status).to.equal(401)
    const other = await browser.open()
    await other.goto(link)
    await other.getByText('The link works once; start npx svc-sdk console again.').waitFor()
    expect(await other.content()).to.not.include('csrf":"A')
    const [cookie] = await page.context().cookies()
    const headers = { cookie: `${cookie?.name}=${cookie?.value}`, 'content-type': 'application/json' }
    const post = (more: Record<string, string>) =>
      ask(origin, '/api/policy/reload', { method: 'POST', body: '{}', headers: { ...headers, ...more } })
    expect((await post({})).status).to.equal(403)
    const { csrf } = JSON.parse((await page.locator('#state').textContent()) ?? '')
    // What another server on localhost that the browser visits can have: the cookie, and with it the token of the page.
    const { json } = await post({ 'x-svc-csrf': csrf })
    expect(json['message']).to.match(/^x-svc-proof: it is not signed by the key of the session/)
    await page.goto(`${origin}/console/policy/try`)
    await ready(page)
    const changed = page.waitForResponse((response) => response.request().method() === 'POST')
    await page.getByLabel('Tool', { exact: true }).fill('billing/refund')
    await page.getByRole('button', { name: 'Try it' }).click()
    expect((await changed).status()).to.equal(200)
    expect(
      await page.evaluate(() => fetch('/api/session', { method: 'DELETE' }).then(({ status }) => status)),
    ).to.equal(403)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByText('Open the link that').waitFor()
    expect((await ask(origin, '/api/records', { headers })).status).to.equal(401)
    end()
    expect((await running).code).to.equal(0)
  })

  it('reads the keys of witnesses once, and gives its pages the keys alone', async () => {
    using home = new TemporaryDir()
    const [token, keys, pipe] = [join(home.path, 'token'), join(home.path, 'keys'), join(home.path, 'pipe')]
    const key = formatVkey('w.example/1', COSIGNATURE_TYPE, signerOf(5).publicKey)
    writeFileSync(token, adminToken)
    writeFileSync(keys, `# ours\n${key}\n`)
    execFileSync('mkfifo', [pipe])
    // A second reader would find nothing.
    const writer = spawn('sh', ['-c', 'cat "$0" > "$1"; : > "$1"', keys, pipe], { stdio: 'ignore' })
    const printed: string[] = []
    let page = ''
    const { code } = await runCommand(
      (io) =>
        consoleCommand({ ...io, out: async (text) => void printed.push(text) }, async () => {
          const [link = ''] = /http:\S+/.exec(printed.join()) ?? []
          page = await (await fetch(link)).text()
        }),
      [...connecting('http://127.0.0.1:1', token), '--witness-keys', pipe],
    )
    writer.kill()
    expect(code).to.equal(0)
    expect(page).to.include(`"witnessKeys":"${key}"`)
  })

  it('gives its pages no file that does not have keys of witnesses', async () => {
    using home = new TemporaryDir()
    const [token, keys] = [join(home.path, 'token'), join(home.path, 'keys')]
    writeFileSync(token, adminToken)
    writeFileSync(keys, 'a secret\n')
    const { code, err } = await runCommand(
      (io) => consoleCommand(io, () => Promise.resolve()),
      [...connecting('http://127.0.0.1:1', token), '--witness-keys', keys],
    )
    expect(code).to.not.equal(0)
    expect(err)
      .to.match(/:1\b.*witness's key/)
      .and.not.include('a secret')
  })
})

describe('a session of svc console', () => {
  const MINUTE = 60_000

  async function open(limitMs?: number) {
    const rig = await startAdminRig()
    const silent = createServer(() => undefined)
    const address = await listenOn(silent, { host: '127.0.0.1', port: 0 })
    let isSilent = false
    const client = await AdminClient.open(
      { url: rig.adminUrl, tokenRef: 'env:SVC_ADMIN' },
      { SVC_ADMIN: adminToken },
    )
    const clock = new FakeClock(Date.now())
    const local = new LocalConsole(
      {
        origin: client.origin,
        fetch: (path, init) =>
          isSilent ? fetch(`http://127.0.0.1:${address}${path}`, init) : client.fetch(path, init),
      },
      { clock, ...(limitMs === undefined ? {} : { limitMs }) },
    )
    const { origin, hash } = new URL(await local.listen(0))
    localConsoles.add(origin)
    const statusOf = async (cookie: string) =>
      (await ask(origin, '/api/records', { headers: { cookie } })).status
    return {
      clock,
      origin,
      ticket: hash.slice(1),
      statusOf,
      get: async (path: string, cookie = '') => {
        const { status, text } = await ask(origin, path, { headers: { cookie } })
        return [status, text.startsWith('{') ? JSON.parse(text).error : text]
      },
      /** The gateway takes requests, and responds to none. Resolves when it has one. */
      async fallSilent() {
        isSilent = true
        await once(silent, 'request')
      },
      keep: (session: SessionClient, headers = {}) =>
        sendChange(origin, session, '/api/session/activity', { headers, claims: { at: clock.now() } }),
      async [Symbol.asyncDispose]() {
        await local.close()
        silent.closeAllConnections()
        silent.close()
        await rig[Symbol.asyncDispose]()
      },
    }
  }

  it('ends after 30 minutes without signed activity, whatever is read with its cookie, also a stream', async () => {
    await using console = await open()
    const { clock, origin, statusOf } = console
    const { cookie } = await beginSession(origin, console.ticket)
    await using events = await readEvents(origin, '?calls=none', { cookie })
    await events.next('status')
    for (let minutes = 0; minutes < 30; minutes += 5) {
      expect(await statusOf(cookie), `after ${minutes} minutes`).to.equal(200)
      clock.advance(5 * MINUTE)
    }
    expect(await statusOf(cookie)).to.equal(401)
    expect((await ask(origin, '/console/log', { headers: { cookie } })).status).to.equal(401)
    const isCut = await events.next('end').then(
      () => false,
      () => true,
    )
    expect(isCut).to.equal(true)
  })

  it('goes on with activity that its key has signed, for 12 hours; a copy of its cookie does not', async () => {
    await using console = await open()
    const { clock, origin, statusOf, keep } = console
    const session = await beginSession(origin, console.ticket)
    expect((await keep(session, { 'x-svc-proof': '' })).status).to.equal(403)
    let { cookie } = session
    for (let minutes = 0; minutes < 12 * 60; minutes += 25) {
      expect(await statusOf(cookie), `after ${minutes} minutes`).to.equal(200)
      cookie = cookieOf(await keep({ ...session, cookie }))
      clock.advance(25 * MINUTE)
      if (minutes === 25) expect(await statusOf(session.cookie), 'the first cookie').to.equal(401)
    }
    expect(await statusOf(cookie)).to.equal(401)
  })

  it('is refused with the status of each error, and the gateway’s own', async () => {
    await using console = await open()
    const { clock, origin, ticket, get } = console
    const begin = async (body: string) => {
      const headers = { authorization: `Bearer ${ticket}` }
      const { status, json } = await ask(origin, '/api/session', { method: 'POST', headers, body })
      return [status, json['error']]
    }
    const { jwk } = newSessionKey()
    expect(await begin('{')).to.deep.equal([400, 'BAD_REQUEST'])
    expect(await begin(JSON.stringify({ key: { ...jwk, x: jwk.y } }))).to.deep.equal([400, 'BAD_REQUEST'])
    expect(await begin('x'.repeat(70_000))).to.deep.equal([413, 'PAYLOAD_TOO_LARGE'])
    expect(await begin('{}')).to.deep.equal([401, 'UNAUTHENTICATED'])
    const session = await beginSession(origin, ticket)
    expect(await get('/api/nothing', session.cookie)).to.deep.equal([404, 'TARGET_NOT_FOUND'])
    expect((await console.keep(session, { 'x-svc-proof': '' })).json['error']).to.equal('TOOL_NOT_ALLOWED')
    clock.advance(31 * MINUTE)
    expect(await get('/api/records', session.cookie)).to.deep.equal([401, 'UNAUTHENTICATED'])
    expect((await console.keep(session)).status).to.equal(401)
  })

  it('that ends while the gateway is silent is refused as ended', async () => {
    await using console = await open()
    const { cookie } = await beginSession(console.origin, console.ticket)
    const silence = console.fallSilent()
    const reading = console.get('/api/records', cookie)
    await silence
    console.clock.advance(31 * MINUTE)
    expect(await reading).to.deep.equal([401, 'UNAUTHENTICATED'])
  })

  it('gets a plain message from a page and from the API if the gateway is silent', async () => {
    await using console = await open(50)
    void console.fallSilent()
    const begun = await ask(console.origin, '/api/session', {
      method: 'POST',
      headers: { authorization: `Bearer ${console.ticket}` },
      body: JSON.stringify({ key: newSessionKey().jwk }),
    })
    const cookie = cookieOf(begun)
    expect(await console.get('/api/records', cookie)).to.deep.equal([502, 'UPSTREAM_UNREACHABLE'])
    const [status, text] = await console.get('/console/log', cookie)
    expect(status).to.equal(502)
    expect(text).to.match(/^The gateway at http:\/\/\S+ has not responded within 0.05 seconds\.\n$/)
  })

  it('passes on operations that the gateway lists, and no path that a URL or a proxy reads as another', async () => {
    await using console = await open()
    const { cookie } = await beginSession(console.origin, console.ticket)
    const { port } = new URL(console.origin)
    const statusOf = async (path: string) => {
      // `fetch` would send the path as it reads it.
      const sent = request({ port, path, headers: { host: `localhost:${port}`, cookie } }).end()
      const [{ statusCode }] = (await once(sent, 'response')) as [IncomingMessage]
      sent.destroy()
      return statusCode
    }
    expect(await statusOf('/api/records?limit=1')).to.equal(200)
    for (const path of [
      '/api/../healthz',
      '/api/%2e%2E/healthz',
      '/api/..%2fhealthz',
      '/api/x/.\\..\\healthz',
      '/api/unlisted',
      '/api/escalations/id/unlisted',
      '/api/policy/reload',
    ])
      expect(await statusOf(path), path).to.equal(404)
    const { text } = await ask(console.origin, '/api/..%2fhealthz', { headers: { cookie } })
    expect(text).to.include('The API has no operation with such a path.')
  })

  it('refuses secrets of other characters as wrong ones', async () => {
    await using console = await open()
    const { origin, ticket } = console
    const session = await beginSession(origin, ticket)
    const [name = '', value = ''] = session.cookie.split('=')
    const other = '\u00e9'.repeat(value.length)
    expect(await console.statusOf(`${name}=${other}`)).to.equal(401)
    const csrf = '\u00e9'.repeat(session.csrf.length)
    expect((await console.keep(session, { 'x-svc-csrf': csrf })).status).to.equal(403)
  })
})
