import { once } from 'node:events'
import { chmodSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request as httpsRequest } from 'node:https'
import { connect as connectTcp } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { Agent, fetch as undiciFetch } from 'undici'
import { type Certificate, TestAuthority } from '../../support/certificates.js'
import { startEverything } from '../../support/everything.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { hearOut } from '../../support/raw.js'
import { rejectionOf } from '../../support/rejection.js'
import { startUpstream } from '../../support/upstream.js'

type TlsOptions = NonNullable<NonNullable<GatewaySettings['server']>['tls']>

interface Site {
  readonly gateway: TestGateway
  /** Puts a certificate in place of the gateway's; the reload is the test's to ask for. */
  install(certificate: Pick<Certificate, 'key' | 'cert'>): void
  installClientCa(pem: string): void
}

describe('TLS on the port of the gateway', () => {
  let home: string
  let authority: TestAuthority
  let first: Certificate
  let second: Certificate
  let client: Certificate

  before(() => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    authority = new TestAuthority(home)
    first = authority.server('first')
    second = authority.server('second')
    client = authority.client()
  })

  after(() => rmSync(home, { recursive: true, force: true }))

  async function withSite(
    tls: Partial<TlsOptions>,
    body: (site: Site) => Promise<void>,
    targets?: Record<string, string>,
  ): Promise<void> {
    await using upstream = await startUpstream()
    const dir = mkdtempSync(join(home, 'site-'))
    const [key, cert, ca] = ['tls.key', 'tls.crt', 'clients.crt'].map((name) => join(dir, name)) as [
      string,
      string,
      string,
    ]
    const install: Site['install'] = (certificate) => {
      writeFileSync(key, certificate.key)
      writeFileSync(cert, certificate.cert)
    }
    install(first)
    copyFileSync(authority.root.certFile, ca)
    const { clientCa, ...rest } = tls
    await using gateway = await startTestGateway({
      targets: targets ?? { files: upstream.url },
      server: {
        tls: {
          key: `file://${key}`,
          cert: `file://${cert}`,
          dirs: [dir],
          ...(clientCa === undefined ? {} : { clientCa: `file://${ca}` }),
          ...rest,
        },
      },
    })
    await body({ gateway, install, installClientCa: (pem) => writeFileSync(ca, pem) })
  }

  /** Resolves when the handshake is over; TLS 1.3 tells a client later that it is refused. */
  async function shake(gateway: TestGateway, options: ConnectionOptions = {}): Promise<TLSSocket> {
    const socket = connect({
      port: Number(new URL(gateway.url).port),
      host: '127.0.0.1',
      ca: authority.root.cert,
      ...options,
    })
    await new Promise<void>((resolve, reject) => {
      socket.once('secureConnect', resolve)
      socket.once('error', reject)
    })
    return socket
  }

  async function statusOf(
    gateway: TestGateway,
    options: ConnectionOptions = {},
  ): Promise<number | undefined> {
    const socket = await shake(gateway, options)
    socket.write('GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
    const { statuses } = await hearOut(socket)
    return statuses[0]
  }

  const nameShown = async (gateway: TestGateway): Promise<string> => {
    const socket = await shake(gateway)
    const { subject } = socket.getPeerCertificate()
    socket.destroy()
    return String(subject.CN)
  }

  const readiness = async (gateway: TestGateway): Promise<{ status: string; warnings?: string[] }> => {
    const dispatcher = new Agent({ connect: { ca: authority.root.cert } })
    try {
      const response = await undiciFetch(`${gateway.url}/readyz`, { dispatcher })
      return (await response.json()) as { status: string; warnings?: string[] }
    } finally {
      await dispatcher.close()
    }
  }

  it('serves a real MCP client that knows the authority', async () => {
    await using server = await startEverything()
    await withSite(
      {},
      async ({ gateway }) => {
        expect(gateway.url).to.match(/^https:/)
        const dispatcher = new Agent({ connect: { ca: authority.root.cert } })
        const transport = new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp/everything`), {
          fetch: (url, init) =>
            undiciFetch(url, { ...init, dispatcher } as Parameters<
              typeof undiciFetch
            >[1]) as unknown as Promise<Response>,
        })
        const agent = new Client({ name: 'test', version: '1.0.0' })
        // The SDK's own types disagree about optional members.
        await agent.connect(transport as Parameters<Client['connect']>[0])
        const { tools } = await agent.listTools()
        expect(tools.map(({ name }) => name)).to.include('echo')
        const { content } = await agent.callTool({ name: 'echo', arguments: { message: 'over TLS' } })
        expect(content).to.deep.equal([{ type: 'text', text: 'Echo: over TLS' }])
        await agent.close()
        await dispatcher.close()
      },
      { everything: server.url },
    )
  })

  it('is not trusted by a client that does not know the authority', () =>
    withSite({}, async ({ gateway }) => {
      expect(await rejectionOf(shake(gateway, { ca: [] }))).to.have.property(
        'code',
        'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      )
    }))

  it('accepts 1.2 and 1.3 and nothing older', () =>
    withSite({}, async ({ gateway }) => {
      for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
        const socket = await shake(gateway, { minVersion: version, maxVersion: version })
        expect(socket.getProtocol()).to.equal(version)
        socket.destroy()
      }
      const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
      expect(await rejectionOf(shake(gateway, old))).to.have.property(
        'code',
        'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
      )
    }))

  it('accepts only 1.3 where the policy says so', () =>
    withSite({ minVersion: 'TLSv1.3' }, async ({ gateway }) => {
      expect(await statusOf(gateway)).to.equal(200)
      expect(await rejectionOf(shake(gateway, { maxVersion: 'TLSv1.2' }))).to.have.property(
        'code',
        'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
      )
    }))

  it('shakes hands once on a connection', () =>
    withSite({}, async ({ gateway, install }) => {
      const again = async (): Promise<Error | null> => {
        const socket = await shake(gateway, { maxVersion: 'TLSv1.2' })
        const error = await new Promise<Error | null>((resolve) => {
          socket.once('error', resolve)
          socket.renegotiate({ rejectUnauthorized: true }, resolve)
        })
        socket.destroy()
        return error
      }
      expect(await again()).to.be.instanceOf(Error)
      install(second)
      await gateway.handle.reload({})
      expect(await again()).to.be.instanceOf(Error)
    }))

  it('agrees on HTTP/1.1 and on no other protocol', () =>
    withSite({}, async ({ gateway }) => {
      const socket = await shake(gateway, { ALPNProtocols: ['h2', 'http/1.1'] })
      expect(socket.alpnProtocol).to.equal('http/1.1')
      socket.destroy()
      await rejectionOf(shake(gateway, { ALPNProtocols: ['h2'] }))
    }))

  it('hangs up on plain HTTP, on garbage and on a handshake that does not go on', async () => {
    await using gateway = await startTestGateway({
      targets: {},
      server: {
        // A busy machine needs its time for the handshake that goes on.
        headersTimeoutMs: 500,
        tls: { key: `file://${first.keyFile}`, cert: `file://${first.certFile}`, dirs: [home] },
      },
    })
    for (const text of [
      'GET / HTTP/1.1\r\nhost: localhost\r\n\r\n',
      '\x16\x03\x01garbage',
      '',
      '\x16\x03\x01\x02\x00',
    ]) {
      const socket = connectTcp(Number(new URL(gateway.url).port), '127.0.0.1')
      socket.write(text, 'latin1')
      expect((await hearOut(socket)).text, text).not.to.contain('HTTP/')
    }
    expect(await statusOf(gateway)).to.equal(200)
  })

  describe('with a client authority', () => {
    const clientCa = 'file://set-by-the-site'

    it('accepts clients with a certificate of it', () =>
      withSite({ clientCa }, async ({ gateway }) => {
        expect(await statusOf(gateway, { key: client.key, cert: client.cert })).to.equal(200)
      }))

    it('refuses others: no certificate, one of another authority, one of a server', () =>
      withSite({ clientCa }, async ({ gateway }) => {
        const stranger = new TestAuthority(mkdtempSync(join(home, 'other-')), 'Other Root').client()
        const shown: ConnectionOptions[] = [
          {},
          { key: stranger.key, cert: stranger.cert },
          { key: second.key, cert: second.cert },
        ]
        for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
          for (const options of shown) {
            const asking = statusOf(gateway, { ...options, maxVersion: version })
            // In 1.2 the handshake fails, in 1.3 the connection closes without an answer.
            expect(await asking.catch(() => undefined)).to.equal(undefined)
          }
        }
        expect(gateway.records()).to.deep.equal([])
      }))

    it('forgets an authority that is replaced, also for clients that resume a session', () =>
      withSite({ clientCa }, async ({ gateway, installClientCa }) => {
        const known = { key: client.key, cert: client.cert, maxVersion: 'TLSv1.2' } as const
        const socket = await shake(gateway, known)
        const session = socket.getSession()
        if (session === undefined) throw new Error('no session')
        const resumed = await shake(gateway, { ...known, session })
        expect(resumed.isSessionReused()).to.equal(true)
        for (const one of [socket, resumed]) one.destroy()

        const other = new TestAuthority(mkdtempSync(join(home, 'other-')), 'Other Root')
        installClientCa(other.root.cert)
        await gateway.handle.reload({})
        expect(await statusOf(gateway, { ...known, session }).catch(() => undefined)).to.equal(undefined)
        const theirs = other.client()
        expect(await statusOf(gateway, { key: theirs.key, cert: theirs.cert })).to.equal(200)
      }))
  })

  describe('reloads changed files', () => {
    it('on a reload', () =>
      withSite({}, async ({ gateway, install }) => {
        expect(await nameShown(gateway)).to.equal('first')
        install(second)
        await gateway.handle.reload({})
        expect(await nameShown(gateway)).to.equal('second')
      }))

    it('by itself', () =>
      withSite({ checkIntervalMs: 10 }, async ({ gateway, install }) => {
        install(second)
        while ((await nameShown(gateway)) !== 'second');
        expect(gateway.log.lines.at(-1)).to.include({ level: 'info', message: 'certificate updated' })
      }))

    it('and keeps open connections', () =>
      withSite({}, async ({ gateway, install }) => {
        const socket = await shake(gateway)
        socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n')
        await once(socket, 'data')
        install(second)
        await gateway.handle.reload({})
        expect(await nameShown(gateway)).to.equal('second')
        socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
        expect((await hearOut(socket)).statuses).to.deep.equal([200])
      }))

    it('under load, without losing a call', () =>
      withSite({}, async ({ gateway, install }) => {
        const failures: unknown[] = []
        const seen = new Set<string>()
        let done = false
        const caller = async (keepAlive: boolean): Promise<void> => {
          const dispatcher = new Agent({
            connect: { ca: authority.root.cert },
            pipelining: keepAlive ? 1 : 0,
          })
          while (!done) {
            const answer = undiciFetch(`${gateway.url}/mcp/files/read@1`, {
              method: 'POST',
              body: '{}',
              dispatcher,
            }).then(async (response) => [response.status, await response.text()] as const)
            const [status] = await answer.catch((fault: unknown) => [fault])
            if (status !== 200) failures.push(status)
          }
          await dispatcher.close()
        }
        const callers = [true, true, false, false].map(caller)
        for (let round = 0; round < 8; round++) {
          install(round % 2 === 0 ? second : first)
          await gateway.handle.reload({})
          seen.add(await nameShown(gateway))
        }
        done = true
        await Promise.all(callers)
        expect(failures).to.deep.equal([])
        expect([...seen]).to.have.members(['first', 'second'])
      }))
  })

  describe('keeps the certificate in use, warns in /readyz and recovers, when a changed file is not valid:', () => {
    const wrongs: readonly (readonly [
      title: string,
      certificate: () => Pick<Certificate, 'key' | 'cert'>,
      message: string,
    ])[] = [
      [
        'key and certificate that do not belong together',
        () => ({ key: first.key, cert: second.cert }),
        'tls.cert: the certificate does not belong to tls.key',
      ],
      [
        'a key that is none',
        () => ({ key: 'no key', cert: second.cert }),
        'tls.key: not a private key in PEM without a passphrase',
      ],
      [
        'a certificate that is none',
        () => ({ key: second.key, cert: 'none' }),
        'tls.cert: no certificate in PEM',
      ],
      [
        'a certificate cut short',
        () => ({
          key: second.key,
          cert: `${second.cert.slice(0, 200)}\n-----END CERTIFICATE-----`,
        }),
        'tls.cert: holds a certificate that cannot be read',
      ],
      ['an empty file', () => ({ key: second.key, cert: '' }), 'tls.crt is empty'],
    ]
    for (const [title, certificate, message] of wrongs) {
      it(title, () =>
        withSite({}, async ({ gateway, install }) => {
          install(certificate())
          await gateway.handle.reload({})
          await gateway.handle.reload({})
          expect(await nameShown(gateway)).to.equal('first')
          const { status, warnings } = await readiness(gateway)
          expect(status).to.equal('ready')
          expect(warnings?.join()).to.include(message).and.include('the old one stays in use')
          const told = gateway.log.lines.filter(({ level }) => level === 'error')
          expect(told).to.have.length(1)
          expect(JSON.stringify(told)).to.include(message).and.not.include('PRIVATE KEY')

          install(second)
          await gateway.handle.reload({})
          expect(await nameShown(gateway)).to.equal('second')
          expect(await readiness(gateway)).to.deep.equal({ status: 'ready' })
        }),
      )
    }

    it('a client authority that is not a certificate', () =>
      withSite({ clientCa: 'file://set-by-the-site' }, async ({ gateway, installClientCa }) => {
        installClientCa('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n')
        await gateway.handle.reload({})
        expect(await statusOf(gateway, { key: client.key, cert: client.cert })).to.equal(200)
        expect(gateway.log.lines.filter(({ level }) => level === 'error')).to.have.length(1)
      }))
  })

  it('warns of a certificate that ends soon', async () => {
    const ending = authority.server('ending', 3)
    await withSite({}, async ({ gateway, install }) => {
      expect(await readiness(gateway)).to.deep.equal({ status: 'ready' })
      install(ending)
      await gateway.handle.reload({})
      const { warnings } = await readiness(gateway)
      expect(warnings).to.have.length(1)
      expect(warnings?.[0]).to.match(/^tls\.cert: the certificate expires at \d{4}-/)
    })
  })

  it('says which settings of a new policy wait for the next start', () =>
    withSite({}, async ({ gateway }) => {
      await gateway.handle.reload({ server: { maxBodyBytes: 1 } })
      const told = gateway.log.lines.filter(({ message }) => message.includes('at the next start'))
      expect(told.map(({ fields }) => fields)).to.deep.equal([
        { settings: ['server.maxBodyBytes', 'server.tls'] },
      ])
    }))

  describe('does not start', () => {
    const start = (tls: Partial<TlsOptions>): Promise<Error> =>
      rejectionOf(
        startTestGateway({
          targets: {},
          server: {
            tls: { key: `file://${first.keyFile}`, cert: `file://${first.certFile}`, dirs: [home], ...tls },
          },
        }),
      )

    it('with a certificate of another key', async () => {
      expect((await start({ key: `file://${second.keyFile}` })).message).to.contain(
        'the certificate does not belong to tls.key',
      )
    })

    it('with a file that is not there, or lies where no keys may lie', async () => {
      expect((await start({ key: `file://${join(home, 'nosuch')}` })).message).to.match(
        /server\.tls\.key: there is no key file/,
      )
      expect((await start({ dirs: [join(home, 'elsewhere')] })).message).to.contain(
        'is outside the directories',
      )
    })

    it('with a key that anyone may overwrite', async () => {
      const open = join(home, 'open.key')
      copyFileSync(first.keyFile, open)
      chmodSync(open, 0o666)
      expect((await start({ key: `file://${open}` })).message).to.contain('writable by everyone')
    })
  })

  it("is reported for a request without a dispatcher: node's own https", () =>
    withSite({}, async ({ gateway }) => {
      const status = await new Promise((resolve, reject) => {
        httpsRequest(`${gateway.url}/healthz`, { ca: authority.root.cert, agent: false }, (response) => {
          response.resume()
          resolve(response.statusCode)
        })
          .once('error', reject)
          .end()
      })
      expect(status).to.equal(200)
    }))
})
