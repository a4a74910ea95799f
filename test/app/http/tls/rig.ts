import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import type { GatewaySettings } from 'svc-sdk'
import { Agent, fetch as undiciFetch } from 'undici'
import { type Certificate, TestAuthority } from '../../../support/certificates.js'
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { readToEnd } from '../../../support/raw.js'
import { startUpstream } from '../../../support/upstream.js'

export type TlsOptions = NonNullable<NonNullable<GatewaySettings['server']>['tls']>

export interface Site {
  readonly gateway: TestGateway
  /** Replaces the files of the gateway's certificate; the test reloads them. */
  install(certificate: Pick<Certificate, 'key' | 'cert'>): void
  installClientCa(pem: string): void
}

/** Created in a suite, it registers the hooks; its certificates exist while the tests run. */
export class TlsRig {
  home!: string
  authority!: TestAuthority
  first!: Certificate
  second!: Certificate
  client!: Certificate

  constructor() {
    before(() => {
      this.home = mkdtempSync(join(tmpdir(), 'svc-test-'))
      this.authority = new TestAuthority(this.home)
      this.first = this.authority.server('first')
      this.second = this.authority.server('second')
      this.client = this.authority.client()
    })
    after(() => rmSync(this.home, { recursive: true, force: true }))
  }

  async withSite(
    tls: Partial<TlsOptions>,
    body: (site: Site) => Promise<void>,
    targets?: Record<string, string>,
  ): Promise<void> {
    await using upstream = await startUpstream()
    const dir = mkdtempSync(join(this.home, 'site-'))
    const [key, cert, ca] = ['tls.key', 'tls.crt', 'clients.crt'].map((name) => join(dir, name)) as [
      string,
      string,
      string,
    ]
    const install: Site['install'] = (certificate) => {
      writeFileSync(key, certificate.key)
      writeFileSync(cert, certificate.cert)
    }
    install(this.first)
    copyFileSync(this.authority.root.certFile, ca)
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

  /** Resolves after the handshake; with TLS 1.3, a client learns later that it is refused. */
  async handshake(gateway: TestGateway, options: ConnectionOptions = {}): Promise<TLSSocket> {
    const socket = connect({
      port: Number(new URL(gateway.url).port),
      host: '127.0.0.1',
      ca: this.authority.root.cert,
      ...options,
    })
    await new Promise<void>((resolve, reject) => {
      socket.once('secureConnect', resolve)
      socket.once('error', reject)
    })
    return socket
  }

  async statusOf(gateway: TestGateway, options: ConnectionOptions = {}): Promise<number | undefined> {
    const socket = await this.handshake(gateway, options)
    socket.write('GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
    const { statuses } = await readToEnd(socket)
    return statuses[0]
  }

  async commonName(gateway: TestGateway): Promise<string> {
    const socket = await this.handshake(gateway)
    const { subject } = socket.getPeerCertificate()
    socket.destroy()
    return String(subject.CN)
  }

  async readiness(gateway: TestGateway): Promise<{ status: string; warnings?: string[] }> {
    const dispatcher = new Agent({ connect: { ca: this.authority.root.cert } })
    try {
      const response = await undiciFetch(`${gateway.url}/readyz`, { dispatcher })
      return (await response.json()) as { status: string; warnings?: string[] }
    } finally {
      await dispatcher.close()
    }
  }
}
