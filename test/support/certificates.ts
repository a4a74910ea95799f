// Certificates for a test, made with openssl: an authority of its own, and what it signs.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Certificate {
  /** Paths of the files, in PEM. */
  readonly keyFile: string
  readonly certFile: string
  readonly key: string
  readonly cert: string
}

export class TestAuthority {
  readonly root: Certificate
  #dir: string
  #serial = 0

  /** Everything is written into `dir`. */
  constructor(dir: string, name = 'Test Root') {
    this.#dir = dir
    this.root = this.#make(name, ['-days', '30', '-addext', 'basicConstraints=critical,CA:TRUE'])
  }

  /** A certificate for this machine's loopback addresses, `days` from now on. */
  server(name = 'gateway', days = 30): Certificate {
    return this.#signed(name, days, 'serverAuth', ['-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'])
  }

  /** Of a node of a cluster, which is a server to its clients and a client of other nodes. */
  node(name = 'node'): Certificate {
    return this.#signed(name, 30, 'serverAuth,clientAuth', ['-addext', 'subjectAltName=IP:127.0.0.1'])
  }

  client(name = 'agent'): Certificate {
    return this.#signed(name, 30, 'clientAuth', [])
  }

  #signed(name: string, days: number, use: string, more: readonly string[]): Certificate {
    return this.#make(name, [
      ...['-CA', this.root.certFile, '-CAkey', this.root.keyFile, '-days', String(days)],
      ...['-addext', 'basicConstraints=critical,CA:FALSE', '-addext', `extendedKeyUsage=${use}`, ...more],
    ])
  }

  #make(name: string, options: readonly string[]): Certificate {
    const base = join(this.#dir, `${name.replaceAll(' ', '-')}-${++this.#serial}`)
    const keyFile = `${base}.key`
    const certFile = `${base}.crt`
    const made = [
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-noenc',
      '-subj',
      `/CN=${name}`,
    ]
    execFileSync('openssl', ['req', '-x509', ...made, ...options, '-keyout', keyFile, '-out', certFile], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    return { keyFile, certFile, key: readFileSync(keyFile, 'utf8'), cert: readFileSync(certFile, 'utf8') }
  }
}
