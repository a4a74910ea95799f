// Test helpers and the test suite that the egress and filesystem rules share.
import type { JsonValue } from '@svc/core/json'
import { securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { explain, send, served } from '../../support/stage-rig.js'
import { run, securityStage } from './rig.js'

export async function detailsOf(security: object, args: JsonValue): Promise<(string | undefined)[]> {
  const { call } = await send(securityStage(security), { args })
  return call.findings.map(({ detail }) => detail)
}

export async function isAllowed(security: object, args: JsonValue): Promise<boolean> {
  return (await detailsOf(security, args)).length === 0
}

export interface ContentRuleSuite {
  readonly key: 'egress_allowlist' | 'fs_allowlist'
  readonly reason: string
  readonly otherReason: string
  readonly allowlist: readonly string[]
  readonly allowed: JsonValue
  /** The value of `argument` violates the rule; `secret` is a part of it that must not be reported. */
  readonly violation: { readonly argument: string; readonly value: string; readonly detail: string }
  readonly secret?: string
  /** A string that the rule does not apply to. */
  readonly prose: string
  /** Values of keys that are named for the rule. */
  readonly keys: {
    readonly names: readonly string[]
    readonly allowed: readonly string[]
    readonly violating: readonly string[]
  }
  readonly nested: { readonly args: JsonValue; readonly detail: string }
  /** Members of names that only resemble a name above. */
  readonly otherKeys: JsonValue
  readonly memberNames: { readonly allowed: JsonValue; readonly violating: JsonValue }
}

export function testContentRule(suite: ContentRuleSuite): void {
  const { key, reason, violation } = suite
  const security = { [key]: suite.allowlist }
  const violating = { [violation.argument]: violation.value }

  async function sendArgs(args: JsonValue, enforcement: object = {}) {
    const call = makeCall({ args })
    let isSent = false
    const outcome = await run({ security, enforcement }, call, async () => {
      isSent = true
      return served
    })
    return { outcome, isSent, reasons: call.findings.map((finding) => finding.reason) }
  }

  it('is off without a list', async () => {
    expect(await isAllowed({}, violating)).to.equal(true)
  })

  it('allows nothing with an empty list', async () => {
    expect(await isAllowed({ [key]: [] }, suite.allowed)).to.equal(false)
    expect(await isAllowed({ [key]: [] }, { q: suite.prose })).to.equal(true)
  })

  it('denies a violation, and nothing is sent', async () => {
    const { outcome, isSent } = await sendArgs(violating)
    expect(isSent).to.equal(false)
    expect(outcome).to.deep.include({
      kind: 'denied',
      code: 'TOOL_NOT_ALLOWED',
      denial: { level: 'gateway', type: 'security', reason },
    })
    if (suite.secret !== undefined) expect(outcome).to.have.property('message').not.include(suite.secret)
  })

  it('allows what is listed', async () => {
    const { outcome, isSent, reasons } = await sendArgs(suite.allowed)
    expect([outcome.kind, isSent, reasons]).to.deep.equal(['completed', true, []])
  })

  it('only records in observe mode, and if deny_on does not name it', async () => {
    for (const enforcement of [{ mode: 'observe' }, { deny_on: [suite.otherReason] }]) {
      const { outcome, reasons } = await sendArgs(violating, enforcement)
      expect([outcome.kind, reasons]).to.deep.equal(['completed', [reason]])
    }
  })

  for (const name of suite.keys.names)
    it(`checks every value of the key ${name}`, async () => {
      for (const value of suite.keys.violating)
        expect(await isAllowed(security, { [name]: value }), value).to.equal(false)
      for (const value of suite.keys.allowed)
        expect(await isAllowed(security, { [name]: value }), value).to.equal(true)
    })

  it('checks values at any depth below such a key', async () => {
    expect(await detailsOf(security, suite.nested.args)).to.deep.equal([suite.nested.detail])
  })

  it('does not apply to keys with other names', async () => {
    expect(await isAllowed(security, suite.otherKeys)).to.equal(true)
  })

  it('checks member names, but not for the keys above them', async () => {
    expect(await isAllowed(security, suite.memberNames.violating)).to.equal(false)
    expect(await isAllowed(security, suite.memberNames.allowed)).to.equal(true)
  })

  it('explains its list and its findings', async () => {
    const lines = (await explain(securityStage(security), { args: violating })).lines
    expect(lines).to.include(`${reason}: $.${violation.argument} ${violation.detail}`)
    expect(lines).to.include(`${key}: ${suite.allowlist.join(', ')}`)
  })
}

/** Tests of single strings as the argument `name`: `allows` expects no findings, `finds` exactly one. */
export function stringTests(security: object, name = 'q') {
  return {
    allows: (...texts: readonly string[]): void => {
      for (const text of texts)
        it(`allows ${JSON.stringify(text)}`, async () => {
          expect(await detailsOf(security, { [name]: text })).to.deep.equal([])
        })
    },
    finds: (text: string, detail: string | RegExp = /./): void => {
      it(`finds ${JSON.stringify(text.slice(0, 60))}`, async () => {
        const [found, ...more] = await detailsOf(security, { [name]: text })
        expect(more).to.deep.equal([])
        if (typeof detail === 'string') expect(found).to.equal(detail)
        else expect(found).to.match(detail)
      })
    },
  }
}

/** Patterns that the schema rejects at the second place of the list, and why. */
export function testInvalidPatterns(
  key: ContentRuleSuite['key'],
  valid: string,
  invalid: readonly (readonly [pattern: string, message: string])[],
): void {
  for (const [pattern, message] of invalid)
    it(`are rejected at load: ${JSON.stringify(pattern)}`, () => {
      const { error } = securityPlugin.schema.safeParse({ [key]: [valid, pattern] })
      expect(error?.issues.map((issue) => [issue.path.join('.'), issue.message])).to.deep.equal([
        [`${key}.1`, message],
      ])
    })
}
