import { once } from 'node:events'
import { expect } from 'chai'
import { Agent, fetch as undiciFetch } from 'undici'
import type { Certificate } from '../../../support/certificates.js'
import { readToEnd } from '../../../support/raw.js'

import { TlsRig } from './rig.js'

describe('the certificate of a gateway', () => {
  const rig = new TlsRig()

  describe('changes with its files', () => {
    it('when the policy is reloaded', () =>
      rig.withSite({}, async ({ gateway, install }) => {
        expect(await rig.commonName(gateway)).to.equal('first')
        install(rig.second)
        await gateway.handle.reload({})
        expect(await rig.commonName(gateway)).to.equal('second')
      }))

    it('without a reload, after the check interval', () =>
      rig.withSite({ checkIntervalMs: 10 }, async ({ gateway, install }) => {
        install(rig.second)
        while ((await rig.commonName(gateway)) !== 'second');
        expect(gateway.log.lines.at(-1)).to.include({ level: 'info', message: 'certificate updated' })
      }))

    it('and open connections stay open', () =>
      rig.withSite({}, async ({ gateway, install }) => {
        const socket = await rig.handshake(gateway)
        socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n')
        await once(socket, 'data')
        install(rig.second)
        await gateway.handle.reload({})
        expect(await rig.commonName(gateway)).to.equal('second')
        socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
        expect((await readToEnd(socket)).statuses).to.deep.equal([200])
      }))

    it('and no call fails under load', () =>
      rig.withSite({}, async ({ gateway, install }) => {
        const failures: unknown[] = []
        const seen = new Set<string>()
        let done = false
        const caller = async (keepAlive: boolean): Promise<void> => {
          const dispatcher = new Agent({
            connect: { ca: rig.authority.root.cert },
            pipelining: keepAlive ? 1 : 0,
          })
          while (!done) {
            const fetching = undiciFetch(`${gateway.url}/mcp/files/read@1`, {
              method: 'POST',
              body: '{}',
              dispatcher,
            }).then(async (response) => [response.status, await response.text()] as const)
            const [status] = await fetching.catch((error: unknown) => [error])
            if (status !== 200) failures.push(status)
          }
          await dispatcher.close()
        }
        const callers = [true, true, false, false].map(caller)
        for (let round = 0; round < 8; round++) {
          install(round % 2 === 0 ? rig.second : rig.first)
          await gateway.handle.reload({})
          seen.add(await rig.commonName(gateway))
        }
        done = true
        await Promise.all(callers)
        expect(failures).to.deep.equal([])
        expect([...seen]).to.have.members(['first', 'second'])
      }))
  })

  describe('stays in use, with a warning in /readyz until the files are valid again, if the files hold', () => {
    const wrongs: readonly (readonly [
      title: string,
      certificate: () => Pick<Certificate, 'key' | 'cert'>,
      message: string,
    ])[] = [
      [
        'a certificate that does not belong to the key',
        () => ({ key: rig.first.key, cert: rig.second.cert }),
        'tls.cert: the certificate does not belong to tls.key',
      ],
      [
        'a key that is not PEM',
        () => ({ key: 'no key', cert: rig.second.cert }),
        'tls.key: not a private key in PEM without a passphrase',
      ],
      [
        'a certificate that is not PEM',
        () => ({ key: rig.second.key, cert: 'none' }),
        'tls.cert: no certificate in PEM',
      ],
      [
        'a truncated certificate',
        () => ({
          key: rig.second.key,
          cert: `${rig.second.cert.slice(0, 200)}\n-----END CERTIFICATE-----`,
        }),
        'tls.cert: holds a certificate that cannot be read',
      ],
      ['an empty certificate file', () => ({ key: rig.second.key, cert: '' }), 'tls.crt is empty'],
    ]
    for (const [title, certificate, message] of wrongs) {
      it(title, () =>
        rig.withSite({}, async ({ gateway, install }) => {
          install(certificate())
          await gateway.handle.reload({})
          await gateway.handle.reload({})
          expect(await rig.commonName(gateway)).to.equal('first')
          const { status, warnings } = await rig.readiness(gateway)
          expect(status).to.equal('ready')
          expect(warnings?.join()).to.include(message).and.include('the old one stays in use')
          const told = gateway.log.lines.filter(({ level }) => level === 'error')
          expect(told).to.have.length(1)
          expect(JSON.stringify(told)).to.include(message).and.not.include('PRIVATE KEY')

          install(rig.second)
          await gateway.handle.reload({})
          expect(await rig.commonName(gateway)).to.equal('second')
          expect(await rig.readiness(gateway)).to.deep.equal({ status: 'ready' })
        }),
      )
    }

    it('a client authority that is not a certificate', () =>
      rig.withSite({ clientCa: 'file://set-by-the-site' }, async ({ gateway, installClientCa }) => {
        installClientCa('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n')
        await gateway.handle.reload({})
        expect(await rig.statusOf(gateway, { key: rig.client.key, cert: rig.client.cert })).to.equal(200)
        expect(gateway.log.lines.filter(({ level }) => level === 'error')).to.have.length(1)
      }))
  })

  it('causes a warning if it expires soon', async () => {
    const ending = rig.authority.server('ending', 3)
    await rig.withSite({}, async ({ gateway, install }) => {
      expect(await rig.readiness(gateway)).to.deep.equal({ status: 'ready' })
      install(ending)
      await gateway.handle.reload({})
      const { warnings } = await rig.readiness(gateway)
      expect(warnings).to.have.length(1)
      expect(warnings?.[0]).to.match(/^tls\.cert: the certificate expires at \d{4}-/)
    })
  })

  it('waits for the next start if a reload changes its setting, which the log names', () =>
    rig.withSite({}, async ({ gateway }) => {
      await gateway.handle.reload({
        server: { mcp: { denials: 'error' }, drainMs: 1_000, maxBodyBytes: 1 },
      })
      const told = gateway.log.lines.filter(({ message }) => message.includes('at the next start'))
      expect(told.map(({ fields }) => fields)).to.deep.equal([
        { settings: ['server.maxBodyBytes', 'server.tls'] },
      ])
    }))
})
