import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { Running } from '../../support/gateway-process.js'
import { until } from '../../support/redis.js'

/** The connections of one address, at a time, that the admin listener admits. */
const ADMIN_CONNECTIONS = 1_000

describe('connections of one address to two workers', function () {
  this.timeout(120_000)
  let home: string
  let gateway: Running
  let urls: Record<'url' | 'adminUrl', string>
  const open = new Set<Socket>()

  beforeEach(async () => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    generateKeyFile(join(home, 'key'))
    writeFileSync(join(home, 'token'), 'the-token-of-this-one-test', { mode: 0o600 })
    writeFileSync(
      join(home, 'policy.yaml'),
      `tenant: acme
port: 0
targets: { files: "http://127.0.0.1:9" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key } }
entitlements: open
quotas: { adapter: lmdb }
authn: { allowUnauthenticated: true }
admin: { port: 0, tokenRef: file://token }
server: { maxConnectionsPerAddress: 6, keepAliveTimeoutMs: 600000 }
`,
    )
    gateway = new Running(['--policy', join(home, 'policy.yaml'), '--workers', '2'])
    const { url = '', adminUrl = '' } = await gateway.line('listening')
    urls = { url, adminUrl }
  })

  afterEach(async () => {
    for (const socket of open) socket.destroy()
    gateway.child.kill('SIGTERM')
    await gateway.exit
    rmSync(home, { recursive: true, force: true })
  })

  /** Makes a request on a connection that stays open. Resolves whether it has a response. */
  const admits = (url: string): Promise<boolean> =>
    new Promise((resolve) => {
      const { hostname, port, host } = new URL(url)
      const socket = connect(Number(port), hostname)
      socket.write(`GET /healthz HTTP/1.1\r\nhost: ${host}\r\n\r\n`)
      socket.once('data', () => resolve(open.add(socket).has(socket)))
      // The close follows.
      socket.once('error', () => undefined)
      socket.once('close', () => resolve(open.delete(socket)))
    })

  it('are limited for both together, and make room when they close', async () => {
    for (let i = 0; i < 6; i++) expect(await admits(urls.url)).to.equal(true)
    for (let i = 0; i < 2; i++) expect(await admits(urls.url)).to.equal(false)
    for (const socket of [...open].slice(0, 1)) socket.destroy()
    await until(() => admits(urls.url))
    expect(await admits(urls.url)).to.equal(false)
  })

  it('are limited apart for the admin listener', async () => {
    for (let i = 0; i < 6; i++) expect(await admits(urls.url)).to.equal(true)
    let isFull = false
    while (!isFull) {
      const admitted = await Promise.all(Array.from({ length: 40 }, () => admits(urls.adminUrl)))
      isFull = admitted.includes(false)
      expect(open.size - 6).to.be.at.most(ADMIN_CONNECTIONS)
    }
    expect(open.size - 6).to.equal(ADMIN_CONNECTIONS)
  })
})
