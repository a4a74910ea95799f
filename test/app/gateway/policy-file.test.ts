// `policyFile` in the options of a gateway.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { createPipeline, PolicyError, startGatewayServer } from 'svc-sdk'
import { governServer } from 'svc-sdk/mcp'
import { mountGateway } from 'svc-sdk/node'

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
  let home: string
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

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'svc-policy-file-'))
    policyFile = join(home, 'policy.yaml')
    generateKeyFile(join(home, 'audit.key'))
  })

  afterEach(() => rmSync(home, { recursive: true, force: true }))

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
