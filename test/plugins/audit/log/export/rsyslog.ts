// A real rsyslog that takes messages by TLS, and asks for a client certificate.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { TestAuthority } from '../../../../support/certificates.js'
import { endWithRunner } from '../../../../support/child-lifetime.js'
import { freePort } from '../../../../support/loopback.js'

const PROGRAM = ['/usr/sbin/rsyslogd', '/sbin/rsyslogd'].find((path) => existsSync(path))
const MODULES = [
  '/usr/lib/x86_64-linux-gnu/rsyslog',
  '/usr/lib/aarch64-linux-gnu/rsyslog',
  '/usr/lib64/rsyslog',
]
const hasTls = MODULES.some((folder) => existsSync(join(folder, 'lmnsd_ossl.so')))

/** Why rsyslog cannot be started here; undefined if it can. */
export const rsyslogMissing =
  PROGRAM === undefined || !hasTls
    ? 'rsyslogd with the module lmnsd_ossl is not installed (Debian: rsyslog rsyslog-openssl)'
    : undefined

export class Rsyslog implements AsyncDisposable {
  #dir: string
  #child: ChildProcess | undefined
  readonly port: number

  private constructor(dir: string, port: number) {
    this.#dir = dir
    this.port = port
  }

  /** Clients need a certificate of `authority`. */
  static async start(dir: string, authority: TestAuthority): Promise<Rsyslog> {
    const rsyslog = new Rsyslog(dir, await freePort())
    const server = authority.server('rsyslog')
    writeFileSync(
      join(dir, 'rsyslog.conf'),
      `global(workDirectory="${dir}" maxMessageSize="256k" parser.escapeControlCharactersOnReceive="off"
  defaultNetstreamDriver="ossl"
  defaultNetstreamDriverCAFile="${authority.root.certFile}"
  defaultNetstreamDriverCertFile="${server.certFile}" defaultNetstreamDriverKeyFile="${server.keyFile}")
module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="x509/certvalid")
template(name="parts" type="list") {
  property(name="syslogfacility-text") constant(value=" ") property(name="syslogseverity-text") constant(value=" ")
  property(name="timestamp" dateFormat="rfc3339") constant(value=" ") property(name="app-name") constant(value=" ")
  property(name="msg") constant(value="\\n")
}
input(type="imtcp" port="${rsyslog.port}" address="127.0.0.1")
action(type="omfile" file="${join(dir, 'received.log')}" template="parts")
`,
    )
    await rsyslog.resume()
    return rsyslog
  }

  /** Starts the process, with what it has received kept. */
  async resume(): Promise<void> {
    const args = ['-n', '-f', join(this.#dir, 'rsyslog.conf'), '-i', join(this.#dir, 'pid')]
    const child = endWithRunner(spawn(PROGRAM ?? '', args, { stdio: ['ignore', 'ignore', 'pipe'] }))
    this.#child = child
    const said: Buffer[] = []
    child.stderr?.on('data', (piece: Buffer) => said.push(piece))
    while (!(await this.#accepts())) {
      if (child.exitCode !== null) throw new Error(`rsyslogd ended: ${Buffer.concat(said)}`)
    }
  }

  async stop(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
  }

  /** What it has written: `facility severity time app-name message`, one a line. Complete after `stop`. */
  get lines(): string[] {
    const path = join(this.#dir, 'received.log')
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : []
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #accepts(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(this.port, '127.0.0.1')
      const end = (isOpen: boolean) => {
        socket.destroy()
        if (isOpen) resolve(true)
        else setImmediate(resolve, false)
      }
      socket.once('connect', () => end(true)).once('error', () => end(false))
    })
  }
}
