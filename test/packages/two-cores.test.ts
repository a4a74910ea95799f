// A plugin that brings its own copy of core runs in a gateway that has another: slots, tokens and refusals agree.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect } from 'chai'
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
  requires: [identity],
  provides: [badge],
  owns: [{ token: printer }],
  register: ({ series }, { container }) =>
    bindDefault(container, printer, { useValue: { print: (number) => series + number } }),
  create: (_config, { container }) => ({
    async handle(call, next) {
      const { args } = await call.request()
      if (args.badge === undefined) throw new Refusal('UNAUTHENTICATED', 'A badge is wanted.')
      call.set(badge, resolve(container, printer).print(args.badge))
      seen.push({ who: call.need(identity).tenant, badge: call.need(badge), clock: resolve(container, tokens.Clock).now() > 0 })
      return next()
    },
  }),
})
`

describe('a plugin with a copy of core of its own', function () {
  this.timeout(120_000)
  let install: PackedInstall
  let upstream: TestUpstream
  let pluginFile: string

  before(async () => {
    upstream = await startUpstream()
    install = new PackedInstall()
    const home = join(install.directory, 'badges')
    mkdirSync(home)
    pluginFile = join(home, 'index.mjs')
    writeFileSync(pluginFile, plugin)
    install.unpack('@svc/core', join(home, 'node_modules', '@svc', 'core'))
  })

  after(async () => {
    install.remove()
    await upstream[Symbol.asyncDispose]()
  })

  it('runs in the place it names, fills its slot, and its refusal keeps its code', async () => {
    const load = async (specifier: string) => import(specifier)
    const { coreUrl, seen } = await load(pathToFileURL(pluginFile).href)
    const entry = join(install.directory, 'entry.mjs')
    writeFileSync(
      entry,
      `export { startGatewayServer } from 'svc-sdk'\nexport const coreUrl = import.meta.resolve('@svc/core')\n`,
    )
    const sdk = await load(pathToFileURL(entry).href)
    expect(sdk.coreUrl).not.to.equal(coreUrl)

    const records: { error?: string }[] = []
    const gateway = sdk.startGatewayServer({
      port: 0,
      tenant: 'acme',
      targets: { billing: upstream.url },
      sec0Dir: join(install.directory, '.svc'),
      policyFile: join(install.directory, 'policy.yaml'),
      policyObject: {
        audit: {
          gatewayName: 'gw',
          gatewayVersion: '1.0.0',
          append: async (record: { error?: string }) => {
            records.push(record)
          },
        },
        authn: { allowUnauthenticated: true },
        quotas: { adapter: 'memory' },
        entitlements: 'open',
        plugins: [{ use: './badges/index.mjs', version: '^2' }],
        badges: { series: 'B-' },
      },
    })
    try {
      const { url } = await gateway.ready()
      const call = (args: object) =>
        fetch(`${url}/mcp/billing/get_invoice@1.0.0`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(args),
        })
      expect((await call({ badge: 7 })).status).to.equal(200)
      expect(seen).to.deep.equal([{ who: 'acme', badge: 'B-7', clock: true }])
      const refused = await call({})
      expect(refused.status).to.equal(401)
      expect(await refused.json()).to.include({ error: 'UNAUTHENTICATED', sent: false })
      expect(records.map(({ error }) => error)).to.deep.equal([undefined, 'UNAUTHENTICATED'])
    } finally {
      await gateway.close()
    }
  })
})
