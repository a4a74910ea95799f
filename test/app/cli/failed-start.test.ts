// A start that fails says why and what to do, on standard error and in one line for each mistake.
import { chmodSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { appenderIn, envelope, signer } from '../../plugins/audit/log/writer/records.js'
import { runSvc } from '../../support/command.js'
import { listenOnLoopback } from '../../support/loopback.js'
import { ofSuite } from '../../support/parts.js'

interface Row {
  readonly failure: string
  /** Sections beside those that each policy has. */
  readonly policy?: Record<string, unknown>
  /** What is changed in the directory of the policy, which has a file `key`. */
  readonly prepare?: (dir: string) => unknown
  readonly file?: string
  /** With DIR and PORT for the directory and the port that is taken. */
  readonly says: string
}

const seed = Buffer.alloc(32, 7).toString('base64')
const logIn = async (dir: string): Promise<void> => {
  await using appender = appenderIn(dir, { signer })
  await appender.append(envelope())
}
const token = (text: string) => (dir: string) => writeFileSync(join(dir, 'token'), text, { mode: 0o600 })
const admin = { port: 0, tokenRef: 'file://token' }

const rows: readonly Row[] = [
  {
    failure: 'the policy is missing',
    file: 'nosuch.yaml',
    says: 'DIR/nosuch.yaml cannot be read: no such file or directory',
  },
  {
    failure: 'the policy is a directory',
    file: '.',
    says: 'DIR/. cannot be read: illegal operation on a directory',
  },
  {
    failure: 'a variable is missing',
    policy: { sec0Dir: '$' + '{env:SVC_NO_SUCH}' },
    says: 'DIR/policy.yaml:8:1 sec0Dir: the environment variable SVC_NO_SUCH is not set; set it, or write the value here',
  },
  {
    failure: 'the signing key is missing',
    prepare: (dir) => rmSync(join(dir, 'key')),
    says: 'DIR/policy.yaml:4:59 audit.signer.keyRef: no key file at DIR/key; npx svc-sdk keys generate makes one',
  },
  {
    failure: 'the signing key is not a key',
    prepare: (dir) => writeFileSync(join(dir, 'key'), 'no key!'),
    says: 'DIR/policy.yaml:4:59 audit.signer.keyRef: DIR/key holds neither base64 nor a PKCS#8 PEM key',
  },
  {
    failure: 'the signing key can be written by everybody',
    prepare: (dir) => chmodSync(join(dir, 'key'), 0o666),
    says: 'DIR/policy.yaml:4:59 audit.signer.keyRef: anyone may overwrite the key file DIR/key: chmod 600 it',
  },
  {
    failure: 'the port is taken',
    policy: { port: 'PORT' },
    says: 'svc-sdk gateway: cannot listen on 127.0.0.1:PORT, the port is taken: end what listens there, or choose another port (0 picks a free one)',
  },
  {
    failure: 'the port for operators is taken',
    policy: { admin: { port: 'PORT' } },
    says: 'svc-sdk gateway: admin: cannot listen on 127.0.0.1:PORT, the port is taken: end what listens there, or choose another port (0 picks a free one)',
  },
  {
    failure: 'the address is of another machine',
    policy: { server: { host: '203.0.113.9', publicUrl: 'https://a.example' } },
    says: 'svc-sdk gateway: cannot listen on 203.0.113.9:0, this machine does not have that address: choose one of its own, or 0.0.0.0 for all',
  },
  {
    failure: 'the admin token is not in the environment',
    policy: { admin: { port: 0, tokenRef: 'env:SVC_NO_SUCH' } },
    says: 'svc-sdk gateway: admin.tokenRef: the environment variable SVC_NO_SUCH is not set',
  },
  {
    failure: 'the admin token is too short',
    policy: { admin },
    prepare: token('short'),
    says: 'svc-sdk gateway: admin.tokenRef: the token has fewer than 16 characters',
  },
  {
    failure: 'the key of sessions is not in the environment',
    policy: { server: { sessionKeyRef: 'env:SVC_NO_SUCH' } },
    says: 'svc-sdk gateway: server.sessionKeyRef: the environment variable SVC_NO_SUCH is not set',
  },
  {
    failure: 'the certificate is not one',
    policy: { server: { tls: { key: 'file://key', cert: 'file://key' } } },
    says: 'svc-sdk gateway: server.tls.cert: no certificate in PEM',
  },
  {
    failure: 'Redis cannot be reached',
    policy: { quotas: { adapter: 'redis', redisUrl: 'redis://user:secret@127.0.0.1:1' } },
    says: 'svc-sdk gateway: stage quotas did not start: Redis cannot be reached: connect ECONNREFUSED 127.0.0.1:1; start it, or correct redisUrl',
  },
  {
    failure: 'a file is in the place of the directory',
    policy: { sec0Dir: 'state' },
    prepare: (dir) => writeFileSync(join(dir, 'state'), ''),
    says: 'svc-sdk gateway: stage audit did not start: cannot open the log at DIR/state/audit: DIR/state is not a directory',
  },
  {
    failure: 'a file is in the place of a store',
    policy: { quotas: { adapter: 'lmdb', dir: 'key' } },
    says: 'svc-sdk gateway: stage quotas did not start: the quota store in DIR/key cannot be opened: DIR/key is not a directory',
  },
  {
    failure: 'the log has another key',
    prepare: async (dir) => {
      await logIn(join(dir, '.svc/audit'))
      rmSync(join(dir, 'key'))
      generateKeyFile(join(dir, 'key'))
    },
    says: 'svc-sdk gateway: stage audit did not start: key KEY is not trusted by the log; see npx svc-sdk keys rotate',
  },
  {
    failure: 'the log is a copy',
    prepare: async (dir) => {
      await logIn(join(dir, 'original'))
      cpSync(join(dir, 'original'), join(dir, '.svc/audit'), { recursive: true })
    },
    says: 'svc-sdk gateway: stage audit did not start: DIR/.svc/audit is a copy or was restored, or its .svc-lock was replaced: continue it if the original is gone (npx svc-sdk audit resume DIR), or begin a log that names it as its parent (npx svc-sdk audit fork DIR)',
  },
  {
    failure: 'the module of a plugin is missing',
    policy: { plugins: [{ use: './nosuch.js' }] },
    says: 'DIR/policy.yaml:8:11 plugins[0]: "./nosuch.js" cannot be imported: Cannot find module \'DIR/nosuch.js\'',
  },
]

describe('a gateway that cannot start', () => {
  let port: number
  let dir: string

  const taken = ofSuite(() => listenOnLoopback(createServer()))
  before(() => {
    port = taken.port
  })
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'svc-failed-'))
    writeFileSync(join(dir, 'key'), seed, { mode: 0o600 })
  })
  afterEach(() => rmSync(dir, { recursive: true }))

  for (const { failure, policy = {}, prepare, file = 'policy.yaml', says } of rows) {
    it(`says in one line that ${failure}`, async () => {
      const sections = {
        tenant: 'acme',
        port: 0,
        targets: { files: 'http://127.0.0.1:1' },
        audit: { gatewayName: 'gw', gatewayVersion: '1', signer: { keyRef: 'file://key' } },
        entitlements: { default_plan: 'a', plans: { a: { allowlist: ['*'] } }, tenants: {} },
        authn: { allowUnauthenticated: true },
        quotas: { adapter: 'memory' },
        ...policy,
      }
      const lines = Object.entries(sections).map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
      writeFileSync(join(dir, 'policy.yaml'), lines.join('').replaceAll('"PORT"', String(port)))
      await prepare?.(dir)
      const run = await runSvc('gateway', '--policy', `${dir}/${file}`)
      const said = run.err
        .replaceAll(dir, 'DIR')
        .replaceAll(`:${port}`, ':PORT')
        .replace(/ed25519:[0-9a-f]{64}/, 'KEY')
      expect(said).to.equal(`${says}\n`)
      expect(run).to.include({ out: '', code: 1 })
    })
  }
})
