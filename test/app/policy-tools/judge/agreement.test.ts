// Every tool that says what a policy decides, against live calls of a gateway with the same policy and a stage of another
// author: the same decision and reason, or unknown.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Plugin } from '@svc/core'
import { expect } from 'chai'
import fc from 'fast-check'
import { loadPolicyFile } from 'svc-sdk/internal/cli/policy-file'
import { explainCall } from 'svc-sdk/internal/policy-tools/explain/explain-call'
import { PolicyJudge } from 'svc-sdk/internal/policy-tools/replay/policy-judge'
import { CaseRunner } from 'svc-sdk/internal/policy-tools/test/run-case'
import { startTestGateway } from '../../../support/gateway.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'
import { startUpstream } from '../../../support/upstream.js'

const stages = fileURLToPath(new URL('../../../../fixtures/stages/', import.meta.url))

const policies = fc.record({
  allowlist: fc.constantFrom(['files/*'], ['files/get', 'send'], ['files/drop']),
  denylist: fc.constantFrom([], ['drop']),
  rule: fc.constantFrom('args.n <= 5', 'args.n <= 5 && call.kind == "tool"', 'true'),
  mode: fc.constantFrom('enforce', 'enforce', 'observe'),
  tools: fc.constantFrom(['send'], ['get', 'drop'], []),
})
const calls = fc.array(
  fc.record({
    name: fc.constantFrom('get', 'send', 'drop'),
    args: fc.constantFrom({ n: 3 }, { n: 9 }, {}),
  }),
  { minLength: 6, maxLength: 6 },
)

describe('the tools that say what a policy decides', () => {
  for (const [file, isKnown] of [
    ['refusing', { test: true, explain: true, replay: false }],
    ['refusing-none', { test: true, explain: true, replay: true }],
    ['refusing-stores', { test: true, explain: true, replay: true }],
    ['refusing-network', { test: false, explain: false, replay: false }],
  ] as const) {
    it(`agree with live calls, or do not know, with a stage of another author: ${file}`, async () => {
      await using upstream = await startUpstream()
      using folder = new TemporaryDir()
      const use = join(stages, `${file}.mjs`)
      const { plugin } = (await import(pathToFileURL(use).href)) as { plugin: Plugin }
      for (const [{ allowlist, denylist, rule, mode, tools }, sample] of fc.sample(
        fc.tuple(policies, calls),
        {
          numRuns: 4,
          seed: 37,
        },
      )) {
        const sections = {
          targets: { files: upstream.url },
          authn: { allowUnauthenticated: true },
          entitlements: {
            default_plan: 'p',
            plans: { p: {} },
            tenants: { acme: { plan: 'p', allowlist, denylist } },
          },
          rules: [{ name: 'small', tools: ['files/get'], require: rule, then: 'deny', keep: ['args.n'] }],
          enforcement: { mode },
          refusing: { tools },
        } as const
        const policyFile = join(folder.path, 'svc.yaml')
        const audit = { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: 'file://key' } }
        const whole = { tenant: 'acme', port: 0, audit, quotas: { adapter: 'memory' }, plugins: [{ use }] }
        writeFileSync(policyFile, JSON.stringify({ ...whole, ...sections }))
        const policyOf = async () => {
          const loaded = await loadPolicyFile(policyFile, {}, false)
          if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes))
          return loaded.policy
        }
        const place = { baseDir: folder.path, env: {} }
        const given = JSON.parse(JSON.stringify(sections)) as typeof sections
        await using gateway = await startTestGateway({ tenant: 'acme', plugins: [plugin], ...given } as never)
        const policy = await policyOf()
        await using runner = await CaseRunner.start({ policy, ...place, applied: () => undefined })
        await using judge = await PolicyJudge.start(await policyOf(), place)
        for (const { name, args } of sample) {
          const response = await gateway.invoke(`/mcp/files/${name}@1.0`, args)
          const body = (await response.json()) as { denial_reason?: string }
          const live = response.status === 200 ? ['allow', undefined] : ['deny', body.denial_reason]
          const what = JSON.stringify({ allowlist, denylist, rule, mode, tools, name, args })

          const tested = await runner.judge({
            ...{ line: undefined, idempotencyKey: null, headers: {}, caller: undefined, at: undefined },
            ...{ times: 1, expect: 'allow', reason: undefined, answers: {} },
            subject: { kind: 'tool', server: 'files', name, version: '1.0' },
            args,
          })
          const decided = [tested.decision, tested.decision === 'deny' ? tested.reasons[0] : undefined]
          if (isKnown.test || tested.decision !== 'unknown')
            expect(decided, `test: ${what}`).to.deep.equal(live)

          const call = {
            tenant: 'acme',
            server: 'files',
            tool: `${name}@1.0`,
            roles: [],
            args: JSON.stringify(args),
          }
          const { verdict } = await explainCall(policy, call, place)
          const explained = [verdict.decision, 'reason' in verdict ? verdict.reason : undefined]
          if (isKnown.explain || verdict.decision !== 'unknown')
            expect(explained, `explain: ${what}`).to.deep.equal(live)

          const record = gateway.records().at(-1)
          if (record === undefined) throw new Error('the call has no record')
          const replayed = await judge.judge(record as never)
          const isSure = replayed.possible.length === 0
          if (isKnown.replay)
            expect(isSure || replayed.possible.every(({ stage }) => stage !== 'refusing'), what).to.equal(
              true,
            )
          if (isSure) expect(replayed.decision, `replay: ${what}`).to.equal(live[0])
        }
      }
    })
  }
})
