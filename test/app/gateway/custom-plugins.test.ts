import { definePlugin } from '@svc/core'
import { authnPlugin } from '@svc/plugin-authn'
import { expect } from 'chai'
import { createPipeline, startGatewayServer } from 'svc-sdk'
import { importPlugins, modulesOf } from 'svc-sdk/internal/gateway/custom-plugins'
import { z } from 'zod'
import { fixtures } from '../cli/policy-console.js'

describe('the modules of a policy', () => {
  const modules = `${fixtures}invalid/modules`

  it('are found from the directory of the policy, by path or by URL', async () => {
    const url = `file://${modules}/slow.mjs`
    const found = await importPlugins(['./slow.mjs', url], modules)
    expect([...found.keys()]).to.deep.equal(['./slow.mjs', url])
    for (const plugin of found.values()) expect(plugin).to.include({ name: 'slow', version: '1.0.0' })
  })

  it('exclude the plugins that ship', () => {
    const uses = [{ use: 'authn' }, { use: './a.js' }, { use: './a.js' }]
    expect(modulesOf(uses, [authnPlugin])).to.deep.equal(['./a.js'])
  })

  it('may be packages', async () => {
    const found = await importPlugins(['@svc/plugin-authn', 'no-such-package'], modules)
    expect(found.get('@svc/plugin-authn')).to.have.property(
      'message',
      '"@svc/plugin-authn" exports no plugin; accepted is a plugin as default export, or under the name "plugin"',
    )
    expect(found.get('no-such-package')).to.have.property(
      'message',
      '"no-such-package" cannot be imported: Cannot find package \'no-such-package\'',
    )
  })
})

describe('a plugin from code', () => {
  it('gets its section from the options, as its schema parses it', async () => {
    const configs: unknown[] = []
    const freeze = definePlugin({
      name: 'freeze',
      version: '1.0.0',
      core: '^1.0.0',
      schema: z.strictObject({ from: z.string(), hours: z.number().default(24) }),
      create(config) {
        configs.push(config)
        return { handle: (_call, next) => next() }
      },
    })
    const gateway = startGatewayServer({
      port: 0,
      tenant: 'acme',
      targets: {},
      audit: { gatewayName: 'gw', gatewayVersion: '1', append: async () => undefined },
      quotas: { adapter: 'memory' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      plugins: [freeze],
      freeze: { from: '2026-12-20' },
    })
    try {
      await gateway.ready()
      expect(configs).to.deep.equal([{ from: '2026-12-20', hours: 24 }])
    } finally {
      await gateway.close()
    }
  })

  it('has its section read once for each reload, also if the policy names a module', async () => {
    let reads = 0
    const counted = definePlugin({
      name: 'counted',
      version: '1.0.0',
      core: '^1.0.0',
      schema: z.strictObject({}).superRefine(() => {
        reads++
      }),
      create: () => ({ handle: (_call, next) => next() }),
    })
    const pipeline = createPipeline({
      tenant: 'acme',
      audit: { gatewayName: 'gw', gatewayVersion: '1', append: async () => undefined },
      quotas: { adapter: 'memory' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      plugins: [counted],
      counted: {},
    })
    try {
      await pipeline.ready()
      reads = 0
      await pipeline.reload({ plugins: [{ use: `file://${fixtures}invalid/modules/slow.mjs` }], slow: {} })
      expect(reads).to.equal(1)
    } finally {
      await pipeline.close()
    }
  })
})
