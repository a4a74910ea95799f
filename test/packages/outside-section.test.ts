// A plugin from outside the repository, packed like any package, with its own copy of core: slots, tokens and refusals of
// both copies are compatible, and the command knows its schema, its place and its explanation.
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect } from 'chai'
import { Running } from '../support/gateway-process.js'
import { listModules } from '../support/loaded-modules.js'
import { PackedInstall } from '../support/packed.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'

/** A section from outside the repository: schema, description, order, a slot of its own, a refusal and a finding. */
const plugin = `
import { bindDefault, definePlugin, identity, Refusal, resolve, slot, token, tokens } from '@svc/core'
import { z } from 'zod'

const badge = slot('badges/number')
const printer = token('badges/Printer')

export const coreUrl = import.meta.resolve('@svc/core')
export const seen = []

export default definePlugin({
  name: 'badges',
  version: '2.1.0',
  core: '^1.0.0',
  phase: 'authorization',
  schema: z.strictObject({ series: z.string().describe('Before every number.') }).describe('Badges for callers.'),
  uses: [identity],
  provides: [badge],
  owns: [{
    token: printer,
    bind: ({ series }, { container }) =>
      bindDefault(container, printer, { useValue: { print: (number) => series + number } }),
  }],
  create: ({ series }, { container }) => ({
    effects: 'none',
    async handle(call, next) {
      call.note('numbers begin with ' + series)
      const { args } = await call.request()
      if (args.badge === undefined) throw new Refusal('UNAUTHENTICATED', 'A badge is wanted.')
      call.set(badge, resolve(container, printer).print(args.badge))
      seen.push({ who: call.need(identity).tenant, badge: call.need(badge), clock: resolve(container, tokens.Clock).now() > 0 })
      return next()
    },
  }),
})
`

const policy = `
tenant: acme
port: 0
targets: { billing: http://127.0.0.1:9 }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://key } }
authn: { allowUnauthenticated: true }
entitlements: open
quotas: { adapter: memory }
plugins: [{ use: svc-badges, version: ^2 }]
badges: { series: B- }
`

describe('a plugin from outside the repository', function () {
  this.timeout(120_000)
  let install: PackedInstall
  let upstream: TestUpstream

  before(async () => {
    upstream = await startUpstream()
    install = new PackedInstall()
    const folder = join(install.directory, 'source')
    mkdirSync(folder)
    writeFileSync(join(folder, 'index.mjs'), plugin)
    writeFileSync(
      join(folder, 'package.json'),
      JSON.stringify({ name: 'svc-badges', version: '2.1.0', exports: './index.mjs', files: ['index.mjs'] }),
    )
    install.add(folder)
    install.unpack(
      '@svc/core',
      join(install.directory, 'node_modules', 'svc-badges', 'node_modules', '@svc', 'core'),
    )
    writeFileSync(join(install.directory, 'policy.yaml'), policy)
  })

  after(async () => {
    install.remove()
    await upstream[Symbol.asyncDispose]()
  })

  const load = async (specifier: string) => import(specifier)

  it('runs with another copy of core, fills its slot, and refuses with its code', async () => {
    const modules = join(install.directory, 'node_modules')
    const { coreUrl, seen } = await load(pathToFileURL(join(modules, 'svc-badges', 'index.mjs')).href)
    const entry = join(install.directory, 'entry.mjs')
    writeFileSync(
      entry,
      `export { startGatewayServer } from 'svc-sdk'\nexport const coreUrl = import.meta.resolve('@svc/core')\n`,
    )
    const sdk = await load(pathToFileURL(entry).href)
    expect(sdk.coreUrl).not.to.equal(coreUrl)

    const records: { error?: string }[] = []
    const gateway = sdk.startGatewayServer({
      policyFile: join(install.directory, 'policy.yaml'),
      policyYaml: policy.replace('http://127.0.0.1:9', upstream.url).replace(/, signer: .*? \} \}/, ' }'),
      audit: {
        gatewayName: 'gw',
        gatewayVersion: '1.0.0',
        append: async (record: { error?: string }) => {
          records.push(record)
        },
      },
    })
    try {
      const { url } = await gateway.ready()
      await expectBadges(url)
      expect(seen).to.deep.equal([{ who: 'acme', badge: 'B-7', clock: true }])
      expect(records.map(({ error }) => error)).to.deep.equal([undefined, 'UNAUTHENTICATED'])
    } finally {
      await gateway.close()
    }
  })

  it('runs with the bundled command', async () => {
    command('keys', 'generate', '--out', 'key')
    const file = join(install.directory, 'served.yaml')
    writeFileSync(
      file,
      policy.replace('http://127.0.0.1:9', upstream.url).replace('file://key', 'file://./key'),
    )
    await using running = new Running(['--policy', file], {}, [...listModules(2), program()])
    const { url = '' } = await running.line('listening')
    await expectBadges(url)
    const ours = running.stderr.split('\n').filter((line) => /node_modules\/(svc-sdk|@svc)\//.test(line))
    const folders = ours.map((line) => /node_modules\/(.*?)\/[^/]*$/.exec(line)?.[1])
    expect([...new Set(folders)]).to.include('svc-sdk/dist/bundle')
  })

  /** One call with a badge, and one without. */
  async function expectBadges(url: string): Promise<void> {
    const call = (args: object) =>
      fetch(`${url}/mcp/billing/get_invoice@1.0.0`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(args),
      })
    expect((await call({ badge: 7 })).status).to.equal(200)
    const refused = await call({})
    expect(refused.status).to.equal(401)
    expect(await refused.json()).to.include({ error: 'UNAUTHENTICATED', sent: false })
  }

  const program = () => join(install.directory, 'node_modules/svc-sdk/bin/svc.js')

  const command = (...words: string[]) =>
    execFileSync(process.execPath, [program(), ...words], {
      cwd: install.directory,
      encoding: 'utf8',
    })

  it('has its order, schema and descriptions in the output of the command', () => {
    const order = command(
      'policy',
      'explain',
      'policy.yaml',
      '--tenant',
      'acme',
      '--server',
      'billing',
      '--tool',
      'get@1',
    )
    expect(order).to.match(
      /authn: [\s\S]*badges: numbers begin with B-\nverdict: denied with UNAUTHENTICATED/,
    )
    const { properties } = JSON.parse(command('policy', 'schema', 'policy.yaml'))
    expect(properties.badges.description).to.equal('Badges for callers.')
    expect(properties.badges.properties.series.description).to.equal('Before every number.')
  })
})
