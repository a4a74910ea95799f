// What `svc policy check` says about who can send calls: to a listener, and to a pipeline in a program.
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bind, type Logger, tokens } from '@svc/core'
import { formatDiagnostic, PolicyError } from '@svc/core/policy'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { createPipeline } from 'svc-sdk'
import { keepingLogger } from '../../support/logger.js'
import { runPolicy } from '../../support/policy-command.js'
import { temporaryDir } from '../../support/temporary-dir.js'

describe('svc policy check', () => {
  const dir = temporaryDir()

  /** Policies are JSON here, which YAML includes. */
  function write(more: Record<string, unknown>): string {
    const policyFile = join(dir.path, 'policy.yaml')
    const policy = {
      tenant: 'acme',
      audit: {
        gatewayName: 'edge',
        gatewayVersion: '1',
        minFreeMb: 0,
        signer: { keyRef: 'file://audit.key' },
      },
      authn: { allowUnauthenticated: true },
      entitlements: { default_plan: 'p', plans: { p: { allowlist: ['calc/add'] } }, tenants: {} },
      quotas: { adapter: 'memory' },
      ...more,
    }
    writeFileSync(policyFile, JSON.stringify(policy))
    return policyFile
  }

  beforeEach(() => generateKeyFile(join(dir.path, 'audit.key')))

  const oidc = { issuer: 'https://id.example', audience: 'gw', jwks_uri: 'https://id.example/jwks' }
  const tls = { key: 'env:TLS', cert: 'env:TLS' }
  const hosts = {
    '127.0.0.1': 'local',
    '::1': 'local',
    localhost: 'local',
    '0.0.0.0': 'remote',
    '::': 'remote',
  }
  const urls = { '': 'local', 'http://127.0.0.1:9': 'local', 'https://gw.example': 'remote' }
  const certificates = { none: undefined, tls, 'client certificates': { ...tls, clientCa: 'env:TLS' } }
  const tokenRules = {
    none: { allowUnauthenticated: true },
    both: { allowUnauthenticated: true, oidc },
    always: { oidc },
  }

  it('warns of callers without a token on other machines, TLS or not, and refuses them if it is strict', async () => {
    for (const [host, ofHost] of Object.entries(hosts))
      for (const [publicUrl, ofUrl] of Object.entries(urls))
        for (const [name, certificate] of Object.entries(certificates))
          for (const [rule, authn] of Object.entries(tokenRules)) {
            const server = {
              host,
              ...(publicUrl === '' ? {} : { publicUrl }),
              ...(certificate && { tls: certificate }),
            }
            const { lines, exit } = await runPolicy(
              [
                'check',
                '--strict',
                write({ port: 0, targets: { calc: 'http://127.0.0.1:9' }, server, authn }),
              ],
              { TLS: 'x' },
            )
            const isOpen =
              (ofHost === 'remote' || ofUrl === 'remote') &&
              name !== 'client certificates' &&
              rule !== 'always'
            const told = `${host} ${publicUrl} ${name} ${rule}`
            const isWarned = lines.some((line) =>
              line.includes(' authn.allowUnauthenticated: callers on other'),
            )
            expect(isWarned, told).to.equal(isOpen)
            const isInClear = ofHost === 'remote' && name === 'none' && publicUrl !== 'https://gw.example'
            expect(exit, told).to.equal(isOpen || isInClear ? 1 : 0)
          }
  })

  const programs: [string, Record<string, unknown>][] = [
    ['a policy without port and targets', {}],
    ['one whose program says who calls', { authn: {} }],
    ['an address of a listener', { server: { host: '0.0.0.0' } }],
    ['an admin listener', { admin: { port: 0, tokenRef: 'env:ADMIN' } }],
    ['targets, which names have to match', { targets: { other: 'http://127.0.0.1:9' } }],
    ['a mistake', { quotas: { adapter: 'memroy' } }],
    [
      'a missing key',
      { audit: { gatewayName: 'e', gatewayVersion: '1', signer: { keyRef: 'file://none' } } },
    ],
  ]
  for (const [title, sections] of programs) {
    it(`judges for a program as the program does: ${title}`, async () => {
      const policyFile = write(sections)
      const { lines, exit } = await runPolicy(['check', '--in-process', policyFile])
      const logger = keepingLogger()
      let mistakes: string[] = []
      try {
        const pipeline = createPipeline({
          policyFile,
          env: { ADMIN: 'x'.repeat(20) },
          configure: (container) => bind<Logger>(container, tokens.Logger, { useValue: logger }),
        })
        await pipeline.ready()
        await pipeline.close()
      } catch (error) {
        if (!(error instanceof PolicyError)) throw error
        mistakes = error.mistakes.map(formatDiagnostic)
      }
      expect(exit).to.equal(mistakes.length === 0 ? 0 : 1)
      const warnings = logger.lines.map(({ fields, message }) => `${String(fields['path'])}: ${message}`)
      const printed = lines.filter((line) => !line.includes(': OK, ') && !line.startsWith('note: '))
      expect(printed.map((line) => line.replace(/^warning: \S+ /, ''))).to.deep.equal([
        ...mistakes,
        ...warnings,
      ])
    })
  }

  for (const [example, ...options] of [['quick-start'], ['in-process', '--in-process']] as const) {
    it(`has no warning for the policy of the example ${example}`, async () => {
      const source = fileURLToPath(new URL(`../../../../examples/${example}/policy.yaml`, import.meta.url))
      const file = join(dir.path, 'example.yaml')
      copyFileSync(source, file)
      mkdirSync(join(dir.path, '.svc'))
      generateKeyFile(join(dir.path, '.svc/signing.key'))
      writeFileSync(join(dir.path, '.svc/admin.token'), 'x'.repeat(32), { mode: 0o600 })
      const { lines, exit } = await runPolicy(['check', '--strict', ...options, file])
      expect(exit).to.equal(0)
      expect(lines.filter((line) => !line.startsWith('note: '))).to.have.length(1)
    })
  }

  it('misses port and targets, unless the policy is for a program', async () => {
    const { lines } = await runPolicy(['check', write({})])
    expect(lines.map((line) => /(?<=: |\d )\w+(?=: )/.exec(line)?.[0])).to.deep.equal(['port', 'targets'])
    const inProcess = await runPolicy(['check', '--strict', '--in-process', write({})])
    expect(inProcess.exit).to.equal(0)
  })
})
