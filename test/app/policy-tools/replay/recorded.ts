// Records of generated calls.
import { bind, tokens } from '@svc/core'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { createPipeline } from 'svc-sdk'
import { isCall } from 'svc-sdk/internal/policy-tools/replay/recorded-verdict'
import { keepingLogger } from '../../../support/logger.js'
import type { generatedCalls } from '../../policy/generated-policies.js'

type Calls = ReturnType<typeof generatedCalls.generate>['value']

/** The records of the calls as a live pipeline with the policy makes them. */
export async function recordsOf(policyYaml: string, calls: Calls): Promise<SignedEnvelope[]> {
  const records: SignedEnvelope[] = []
  const { targets: _, port: __, audit, ...sections } = JSON.parse(policyYaml)
  const { signer: ___, ...names } = audit
  const append = async (record: object) => void records.push(record as SignedEnvelope)
  const pipeline = createPipeline({
    policyObject: sections,
    audit: { ...names, append },
    configure: (container) => bind(container, tokens.Logger, { useValue: keepingLogger() }),
  })
  try {
    for (const [index, { server, name, version, args, tenant, roles, key }] of calls.entries()) {
      await pipeline.run(
        {
          server,
          tool: name,
          version,
          args,
          headers: key === null ? {} : { 'idempotency-key': `${key}${index}` },
          ...(tenant === undefined && index < 20
            ? {}
            : {
                identity: {
                  tenant: tenant ?? 'demo',
                  roles: [...roles],
                  user: `caller-${index}`,
                  ...(index % 3 === 0 ? { client: 'g1' } : {}),
                },
              }),
        },
        async (call) => {
          const refused = await call.commitHolds()
          return refused ?? { kind: 'completed', status: 200, headers: {}, body: Buffer.from('{}') }
        },
      )
    }
  } finally {
    await pipeline.close()
  }
  return records.filter(isCall)
}
