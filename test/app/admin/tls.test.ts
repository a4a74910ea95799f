import { execFile } from 'node:child_process'
import { copyFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import type { PeerCertificate, TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { type Certificate, TestAuthority } from '../../support/certificates.js'
import { ofSuite } from '../../support/parts.js'
import { rejectionOf } from '../../support/rejection.js'
import { svc } from '../../support/svc.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { type AdminRig, adminToken, ask, startAdminRig } from './rig.js'

interface Seen {
  readonly status: number
  readonly text: string
  readonly peer: PeerCertificate
}

describe('TLS on the admin listener', () => {
  let authority: TestAuthority
  let first: Certificate

  const home = ofSuite(() => new TemporaryDir())
  before(() => {
    authority = new TestAuthority(home.path)
    first = authority.server('first')
  })

  beforeEach(() => install(first))

  function install({ keyFile, certFile }: Pick<Certificate, 'keyFile' | 'certFile'>): void {
    copyFileSync(keyFile, join(home.path, 'admin.key'))
    copyFileSync(certFile, join(home.path, 'admin.crt'))
  }

  const admin = (more: object = {}) => ({
    port: 0,
    tokenRef: 'env:SVC_ADMIN',
    tls: {
      key: `file://${home.path}/admin.key`,
      cert: `file://${home.path}/admin.crt`,
      dirs: [home.path],
      ...more,
    },
  })

  function seen(
    { adminUrl }: AdminRig,
    path: string,
    options: { ca?: string; key?: string; cert?: string; origin?: string } = {},
  ): Promise<Seen> {
    const { origin, ...tls } = options
    return new Promise((resolve, reject) => {
      const headers = {
        authorization: `Bearer ${adminToken}`,
        ...(origin === undefined ? {} : { origin }),
      }
      const sending = request(adminUrl + path, { ca: authority.root.cert, ...tls, headers, agent: false })
      sending.once('error', reject)
      sending.once('response', (message) => {
        const peer = (message.socket as TLSSocket).getPeerCertificate()
        let text = ''
        message.on('data', (piece) => {
          text += String(piece)
        })
        message.once('end', () => resolve({ status: message.statusCode ?? 0, text, peer }))
      })
      sending.end()
    })
  }

  const codeOf = (promise: Promise<unknown>) =>
    promise.then(
      () => expect.fail('the server responded'),
      (error: { code?: string }) => error.code ?? 'none',
    )

  it('is used if the policy has a key and a certificate', async () => {
    await using rig = await startAdminRig({ admin: admin() })
    expect(rig.adminUrl).to.match(/^https:/)
    const { status, text } = await seen(rig, '/metrics', { origin: rig.adminUrl })
    expect(status).to.equal(200)
    expect(text).to.match(/^svc_ready 1$/m)
    expect(await codeOf(seen(rig, '/metrics', { ca: first.cert }))).to.match(/VERIFY|CERT/)
    expect(await codeOf(ask(rig.adminUrl.replace('https', 'http'), '/healthz', {}))).not.to.equal('none')
  })

  it('requires client certificates if the policy names an authority for them', async () => {
    copyFileSync(authority.root.certFile, join(home.path, 'clients.crt'))
    await using rig = await startAdminRig({ admin: admin({ clientCa: `file://${home.path}/clients.crt` }) })
    const { key, cert } = authority.client()
    expect((await seen(rig, '/metrics', { key, cert })).status).to.equal(200)
    expect(await codeOf(seen(rig, '/metrics'))).not.to.equal('none')
  })

  it('reloads a changed certificate on a policy reload', async () => {
    await using rig = await startAdminRig({ admin: admin() })
    expect((await seen(rig, '/healthz')).peer.subject.CN).to.equal('first')
    install(authority.server('second'))
    await rig.gateway.handle.reload({})
    expect((await seen(rig, '/healthz')).peer.subject.CN).to.equal('second')
  })

  it('warns the operator of a certificate that ends soon', async () => {
    install(authority.server('brief', 2))
    await using rig = await startAdminRig({ admin: admin() })
    expect((await rig.own('/readyz')).text).to.match(/admin\.tls\.cert: the certificate expires/)
  })

  it('prevents a start with a key of another certificate', async () => {
    install({ keyFile: authority.server('other').keyFile, certFile: first.certFile })
    const error = await rejectionOf(startAdminRig({ admin: admin() }))
    expect(error.message).to.match(/^admin\.tls/)
  })

  it('is used by svc escalations, with a private authority in NODE_EXTRA_CA_CERTS', async () => {
    await using rig = await startAdminRig({ admin: admin() })
    rig.service.open('E1')
    const env = { ...process.env, SVC_ADMIN_URL: rig.adminUrl, SVC_ADMIN_TOKEN: adminToken }
    const run = (more: object) =>
      promisify(execFile)(process.execPath, [svc, 'escalations', 'approve', 'E1'], {
        env: { ...env, ...more },
      })
    const { stdout } = await run({ NODE_EXTRA_CA_CERTS: authority.root.certFile })
    expect(stdout).to.match(/^status +approved/m)
    const refused = await run({}).catch((error: { code: number; stderr: string }) => error)
    expect(refused).to.have.property('code', 1)
    expect(refused.stderr).to.match(
      /^svc-sdk escalations approve: https:\/\/127\.0\.0\.1:\d+: [^\n]*certificate/,
    )
  })
})
