// `policyFile` in the options of a gateway.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { createPipeline, PolicyError, startGatewayServer } from 'svc-sdk'
import { governServer } from 'svc-sdk/mcp'
import { mountGateway } from 'svc-sdk/node'
import { temporaryDir } from '../../support/temporary-dir.js'

interface Options {
  policyFile: string
  policyYaml?: string
}

const ways = {
  startGatewayServer: (options: Options) => startGatewayServer(options),
  mountGateway: (options: Options) => mountGateway(options),
  createPipeline: (options: Options) => createPipeline(options),
  governServer: (options: Options) => governServer(new McpServer({ name: 's', version: '1' }), options),
}

describe('policyFile', () => {
  let policyFile: string
  const policy = JSON.stringify({
    tenant: 'acme',
    port: 0,
    targets: {},
    audit: { gatewayName: 'edge', gatewayVersion: '1', minFreeMb: 0, signer: { keyRef: 'file://audit.key' } },
    authn: { allowUnauthenticated: true },
    entitlements: { default_plan: 'p', plans: { p: { allowlist: [] } }, tenants: {} },
    quotas: { adapter: 'memory' },
  })

  const home = temporaryDir()
  beforeEach(() => {
    policyFile = join(home.path, 'policy.yaml')
    generateKeyFile(join(home.path, 'audit.key'))
  })

  for (const [way, start] of Object.entries(ways)) {
    describe(`of ${way}`, () => {
      it('is read if no policy is given beside it', async () => {
        writeFileSync(policyFile, policy)
        const started = start({ policyFile })
        await started.ready()
        await started.close()
      })

      it('only names the policy that is given beside it', async () => {
        writeFileSync(policyFile, 'not: this')
        const started = start({ policyFile, policyYaml: policy })
        await started.ready()
        await started.close()
      })

      it('is a mistake of the policy if it cannot be read', () => {
        expect(() => start({ policyFile })).to.throw(
          PolicyError,
          `${policyFile} cannot be read: no such file`,
        )
      })
    })
  }
})
