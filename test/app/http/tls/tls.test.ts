import { chmodSync, copyFileSync, mkdtempSync } from 'node:fs'
import { request as httpsRequest } from 'node:https'
import { connect as connectTcp } from 'node:net'
import { join } from 'node:path'
import type { ConnectionOptions } from 'node:tls'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect } from 'chai'
import { Agent, fetch as undiciFetch } from 'undici'
import { TestAuthority } from '../../../support/certificates.js'
import { startEverything } from '../../../support/everything.js'
import { startTestGateway } from '../../../support/gateway.js'
import { readToEnd } from '../../../support/raw.js'
import { rejectionOf } from '../../../support/rejection.js'

import { type TlsOptions, TlsRig } from './rig.js'

describe('TLS on the port of the gateway', () => {
  const rig = new TlsRig()

  it('serves an MCP client that trusts the authority', async () => {
    await using server = await startEverything()
    await rig.withSite(
      {},
      async ({ gateway }) => {
        expect(gateway.url).to.match(/^https:/)
        const dispatcher = new Agent({ connect: { ca: rig.authority.root.cert } })
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

  it('is rejected by a client that does not trust the authority', () =>
    rig.withSite({}, async ({ gateway }) => {
      expect(await rejectionOf(rig.handshake(gateway, { ca: [] }))).to.have.property(
        'code',
        'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      )
    }))

  it('accepts TLS 1.2 and 1.3 and no older version', () =>
    rig.withSite({}, async ({ gateway }) => {
      for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
        const socket = await rig.handshake(gateway, { minVersion: version, maxVersion: version })
        expect(socket.getProtocol()).to.equal(version)
        socket.destroy()
      }
      const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
      expect(await rejectionOf(rig.handshake(gateway, old))).to.have.property(
        'code',
        'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
      )
    }))

  it('accepts only TLS 1.3 if the policy requires it', () =>
    rig.withSite({ minVersion: 'TLSv1.3' }, async ({ gateway }) => {
      expect(await rig.statusOf(gateway)).to.equal(200)
      expect(await rejectionOf(rig.handshake(gateway, { maxVersion: 'TLSv1.2' }))).to.have.property(
        'code',
        'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
      )
    }))

  it('refuses renegotiation', () =>
    rig.withSite({}, async ({ gateway, install }) => {
      const again = async (): Promise<Error | null> => {
        const socket = await rig.handshake(gateway, { maxVersion: 'TLSv1.2' })
        const error = await new Promise<Error | null>((resolve) => {
          socket.once('error', resolve)
          socket.renegotiate({ rejectUnauthorized: true }, resolve)
        })
        socket.destroy()
        return error
      }
      expect(await again()).to.have.property('code', 'ERR_SSL_NO_RENEGOTIATION')
      install(rig.second)
      await gateway.handle.reload({})
      expect(await again()).to.have.property('code', 'ERR_SSL_NO_RENEGOTIATION')
    }))

  it('negotiates HTTP/1.1 and no other protocol', () =>
    rig.withSite({}, async ({ gateway }) => {
      const socket = await rig.handshake(gateway, { ALPNProtocols: ['h2', 'http/1.1'] })
      expect(socket.alpnProtocol).to.equal('http/1.1')
      socket.destroy()
      expect(await rejectionOf(rig.handshake(gateway, { ALPNProtocols: ['h2'] }))).to.have.property(
        'code',
        'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL',
      )
    }))

  it('closes the connection on plain HTTP, on garbage and on a stalled handshake', async () => {
    await using gateway = await startTestGateway({
      targets: {},
      server: {
        // A busy machine needs this time for a handshake.
        headersTimeoutMs: 500,
        tls: { key: `file://${rig.first.keyFile}`, cert: `file://${rig.first.certFile}`, dirs: [rig.home] },
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
      expect((await readToEnd(socket)).text, text).not.to.contain('HTTP/')
    }
    expect(await rig.statusOf(gateway)).to.equal(200)
  })

  describe('with a client authority', () => {
    const clientCa = 'file://set-by-the-site'
    const refusedBy = ({ code }: NodeJS.ErrnoException) =>
      void expect(code).to.match(/^(?:ECONNRESET|ERR_SSL_[\w/]*ALERT\w*)$/)

    it('accepts a client with a certificate of that authority', () =>
      rig.withSite({ clientCa }, async ({ gateway }) => {
        expect(await rig.statusOf(gateway, { key: rig.client.key, cert: rig.client.cert })).to.equal(200)
      }))

    it('refuses a client without a certificate, with one of another authority, or with one for a server', () =>
      rig.withSite({ clientCa }, async ({ gateway }) => {
        const stranger = new TestAuthority(mkdtempSync(join(rig.home, 'other-')), 'Other Root').client()
        const shown: ConnectionOptions[] = [
          {},
          { key: stranger.key, cert: stranger.cert },
          { key: rig.second.key, cert: rig.second.cert },
        ]
        for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
          for (const options of shown) {
            const asking = rig.statusOf(gateway, { ...options, maxVersion: version })
            // In 1.2 the handshake fails, in 1.3 the connection closes without a response.
            expect(await asking.catch(refusedBy)).to.equal(undefined)
          }
        }
        expect(gateway.records()).to.deep.equal([])
      }))

    it('refuses certificates of a replaced authority, also in a resumed TLS session', () =>
      rig.withSite({ clientCa }, async ({ gateway, installClientCa }) => {
        const known = { key: rig.client.key, cert: rig.client.cert, maxVersion: 'TLSv1.2' } as const
        const socket = await rig.handshake(gateway, known)
        const session = socket.getSession()
        if (session === undefined) throw new Error('no session')
        const resumed = await rig.handshake(gateway, { ...known, session })
        expect(resumed.isSessionReused()).to.equal(true)
        for (const one of [socket, resumed]) one.destroy()

        const other = new TestAuthority(mkdtempSync(join(rig.home, 'other-')), 'Other Root')
        installClientCa(other.root.cert)
        await gateway.handle.reload({})
        expect(await rig.statusOf(gateway, { ...known, session }).catch(refusedBy)).to.equal(undefined)
        const theirs = other.client()
        expect(await rig.statusOf(gateway, { key: theirs.key, cert: theirs.cert })).to.equal(200)
      }))
  })

  describe('prevents the start of the gateway', () => {
    const start = (tls: Partial<TlsOptions>): Promise<Error> =>
      rejectionOf(
        startTestGateway({
          targets: {},
          server: {
            tls: {
              key: `file://${rig.first.keyFile}`,
              cert: `file://${rig.first.certFile}`,
              dirs: [rig.home],
              ...tls,
            },
          },
        }),
      )

    it('if the certificate belongs to another key', async () => {
      expect((await start({ key: `file://${rig.second.keyFile}` })).message).to.contain(
        'the certificate does not belong to tls.key',
      )
    })

    it('if the key file does not exist or is outside the directories for keys', async () => {
      expect((await start({ key: `file://${join(rig.home, 'nosuch')}` })).message).to.match(
        /server\.tls\.key: there is no key file/,
      )
      expect((await start({ dirs: [join(rig.home, 'elsewhere')] })).message).to.contain(
        'is outside the directories',
      )
    })

    it('if the key file is writable by everyone', async () => {
      const open = join(rig.home, 'open.key')
      copyFileSync(rig.first.keyFile, open)
      chmodSync(open, 0o666)
      expect((await start({ key: `file://${open}` })).message).to.contain('writable by everyone')
    })
  })

  it('serves a client that uses node:https', () =>
    rig.withSite({}, async ({ gateway }) => {
      const status = await new Promise((resolve, reject) => {
        httpsRequest(`${gateway.url}/healthz`, { ca: rig.authority.root.cert, agent: false }, (response) => {
          response.resume()
          resolve(response.statusCode)
        })
          .once('error', reject)
          .end()
      })
      expect(status).to.equal(200)
    }))
})
