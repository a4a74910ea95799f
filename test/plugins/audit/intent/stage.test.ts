import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Appender, type Call, type Outcome, type Signer, sideEffects, tokens } from '@svc/core'
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { type CallOverrides, controlOf, makeCall } from '../../../support/call.js'
import { served } from '../../../support/stage-rig.js'
import { temporaryDir } from '../../../support/temporary-dir.js'
import { envelope, signer } from '../log/writer/records.js'
import { AuditRig } from '../rig.js'

describe('the intent of a call', () => {
  const dir = temporaryDir()

  const noted = (): Record<string, unknown>[] => {
    const folder = join(dir.path, 'intents')
    if (!existsSync(folder) || !statSync(folder).isDirectory()) return []
    return readdirSync(folder)
      .filter((name) => name.endsWith('.journal'))
      .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n').filter(Boolean))
      .map((line) => JSON.parse(line))
  }

  class Scene extends AuditRig {
    /** Intents on disk at the moment of the send; undefined when it was not sent. */
    atSend: string[] | undefined
    run: (call: Call) => Promise<Outcome> = () => Promise.reject(new Error('not started'))
  }

  async function scene(
    settings: object,
    { append, isSigned = true }: { append?: Appender['append']; isSigned?: boolean } = {},
  ): Promise<Scene> {
    const made = new Scene(append === undefined ? {} : { append })
    if (isSigned) made.bind<Signer>(tokens.Signer, signer)
    made.run = await made.pipeline({ dir: dir.path, ...settings }, async (call) => {
      const refused = await controlOf(call).commitHolds()
      if (refused !== undefined) return refused
      made.atSend = noted().flatMap(({ record }) =>
        record === undefined ? [] : [(record as AuditEnvelope).tool],
      )
      return served
    })
    return made
  }

  const remove: CallOverrides = { tool: 'delete_file' }

  it('is on disk before a side-effecting call is sent, and only then, by default', async () => {
    await using gateway = await scene({})
    await gateway.run(makeCall(remove))
    expect(gateway.atSend).to.deep.equal(['delete_file@1.0.0'])
    await gateway.run(makeCall({ tool: 'read_file' }))
    expect(gateway.atSend).to.deep.equal(['delete_file@1.0.0'])
    expect(gateway.records).to.have.length(2)
  })

  it("follows the policy's classification of a tool", async () => {
    await using gateway = await scene({})
    const quiet = makeCall(remove)
    quiet.set(sideEffects, { policy: () => false })
    await gateway.run(quiet)
    expect(gateway.atSend).to.deep.equal([])
    const loud = makeCall({ tool: 'read_file' })
    loud.set(sideEffects, { policy: () => true })
    await gateway.run(loud)
    expect(gateway.atSend).to.deep.equal(['read_file@1.0.0'])
  })

  it('is on disk before any call is sent, with intent all', async () => {
    await using gateway = await scene({ intent: 'all' })
    await gateway.run(makeCall({ tool: 'read_file' }))
    expect(gateway.atSend).to.deep.equal(['read_file@1.0.0'])
  })

  it('is not written with intent off', async () => {
    await using gateway = await scene({ intent: 'off' })
    await gateway.run(makeCall(remove))
    expect(gateway.atSend).to.deep.equal([])
  })

  it('needs audit.dir and a signer if the writer is bound from code', async () => {
    for (const [settings, isSigned] of [
      [{ dir: undefined }, true],
      [{}, false],
    ] as const) {
      await using gateway = await scene(settings, { isSigned })
      await gateway.run(makeCall(remove))
      expect(gateway.atSend).to.deep.equal([])
    }
  })

  it('that somebody else has planted is recorded as refused, and not as what it says', async () => {
    mkdirSync(join(dir.path, 'intents'))
    writeFileSync(join(dir.path, 'intents/.lock'), '')
    const record = { ...envelope({ ts: new Date(0).toISOString() }), sent: 'yes' }
    const decision = { ...record, span_id: 'ab', server: 'gw@2.0.0', tool: 'escalations/decide@1' }
    const lines = [record, decision].map((one, at) => JSON.stringify({ intent: at, from: 0, record: one }))
    writeFileSync(join(dir.path, 'intents/1-a.journal'), `{"journal":1}\n${lines.join('\n')}\n`)
    await using gateway = await scene({})
    expect(gateway.records.map(({ tool, policy, event }) => [tool, policy.decision, event])).to.deep.equal([
      ['intents/refused@1', 'deny', { files: 1 }],
    ])
    expect(gateway.records[0]?.findings).to.have.nested.property('[0].reason', 'intents_refused')
    await gateway.run(makeCall(remove))
    expect(gateway.atSend).to.deep.equal(['delete_file@1.0.0'])
  })

  it('contains the record that is written if the outcome stays unknown', async () => {
    await using gateway = await scene({})
    await gateway.run(makeCall({ ...remove, args: { path: '/tmp/x' }, agent: { agentRef: 'run' } }))
    const record = noted().find((line) => 'record' in line)?.['record']
    const [own] = gateway.records
    expect(record).to.deep.equal({
      ...own,
      status: 'error',
      error: 'OUTCOME_UNKNOWN',
      output_sha256: null,
      sent: 'unknown',
    })
  })

  it('prevents the call if it cannot be written', async () => {
    writeFileSync(join(dir.path, 'intents'), 'a file where the folder should be')
    await using gateway = await scene({ intent: 'all' })
    expect(await gateway.run(makeCall())).to.include({
      kind: 'denied',
      code: 'AUDIT_UNAVAILABLE',
    })
    expect(gateway.atSend).to.equal(undefined)
    expect(gateway.records.map(({ error }) => error)).to.deep.equal(['AUDIT_UNAVAILABLE'])
    expect(gateway.meter.values.get('svc_audit_intent_failures_total')).to.equal(1)
  })

  it('is counted if it cannot be written, and the call is served, with failure_mode continue', async () => {
    writeFileSync(join(dir.path, 'intents'), 'a file where the folder should be')
    await using gateway = await scene({ failure_mode: 'continue' })
    expect(await gateway.run(makeCall(remove))).to.include({ kind: 'completed' })
    expect(gateway.meter.values.get('svc_audit_intent_failures_total')).to.equal(1)
  })

  it('stays for recovery if the record of a completed call could not be written', async () => {
    {
      await using gateway = await scene({}, { append: () => Promise.reject(new Error('disk full')) })
      expect(await gateway.run(makeCall(remove))).to.include({ code: 'OUTCOME_UNRECORDED' })
    }
    await using next = await scene({})
    expect(next.records.map(({ tool, error }) => [tool, error])).to.deep.equal([
      ['delete_file@1.0.0', 'OUTCOME_UNKNOWN'],
    ])
  })
})
