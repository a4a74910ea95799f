// Elicitations that a policy allows: what they must not ask, what clients may reply, and the streams that they come on.
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { ofSuite } from '../../support/parts.js'
import { scriptedTarget } from '../../support/stdio-target.js'
import { connectAsked, eras, openRoute, requestOf, startAsking } from './asking.js'

const form = (message: string, properties: object = { value: { type: 'string' } }) => ({
  method: 'elicitation/create',
  params: { message, requestedSchema: { type: 'object', properties } },
})
const url = (url: unknown, message = 'Please agree.') => ({
  method: 'elicitation/create',
  params: { mode: 'url', message, url, elicitationId: 'e1' },
})

/** Refused, by the reason in their record. */
const refused: Readonly<Record<string, readonly { method: string; params: object }[]>> = {
  credential_requested: [
    form('Enter your password'),
    form('Enter your P a s s w o r d'),
    form('Enter your pаsswоrd'),
    form('Enter your pass\u200bword'),
    form('Enter your ｐａｓｓｗｏｒｄ'),
    form('Enter your p4ssw0rd'),
    form('Bitte das Passwort eingeben'),
    form('请输入密码'),
    form('Continue?', { apiKey: { type: 'string' } }),
    form('Continue?', { value: { type: 'string', title: 'Recovery phrase' } }),
    form('Continue?', { value: { type: 'string', description: 'The one-time code that you got.' } }),
    form('Continue?', { value: { type: 'string', enum: ['a'], enumNames: ['Your API key'] } }),
    url('https://accounts.good.example/', 'Enter your card number there.'),
  ],
  gateway_imitated: [
    form('Request of the server "bank": which account?'),
    form('The policy gateway needs you to confirm.'),
    form('Open https://GW.example/console to continue.'),
    url('https://gw.example/approve'),
  ],
  url_not_allowed: [
    url('https://evil.example/'),
    url('https://good.example.evil.example/'),
    url('http://accounts.good.example/'),
    url('https://user@accounts.good.example/'),
    url('https://accounts.good.example:8443/'),
    url('javascript:alert(1)'),
    url('not a URL'),
    url(42),
  ],
  server_request_unknown: [
    { method: 'elicitation/create', params: { message: 'x', mode: 'voice' } },
    { method: 'elicitation/create', params: { ...form('x').params, url: 'https://evil.example/' } },
    { method: 'Sampling/createMessage', params: {} },
    { method: 'shell/run', params: {} },
  ],
  server_request_denied: [form('x'.repeat(40_000))],
}

const policy = {
  server: { publicUrl: 'https://gw.example' },
  protections: { server_requests: { url_hosts: ['*.good.example'] } },
}

describe('an elicitation', function () {
  this.timeout(120_000)

  const asking = ofSuite(() => startAsking())

  it('that asks for a secret, imitates the gateway, names another host or is of no known form is refused', async () => {
    await using opened = await openRoute('several servers', asking.urls.handshake, policy)
    await using connected = await opened.connect('handshake')
    let seen = 0
    for (const [reason, requests] of Object.entries(refused)) {
      for (const request of requests) {
        const result = await connected.call(request)
        const name = `${JSON.stringify(request).slice(0, 200)}: ${result}`
        expect(connected.asked, name).to.deep.equal([])
        const records = opened.records().filter(({ tool }) => String(tool).startsWith('server_requests/'))
        expect(JSON.stringify(records.slice(seen)), name).to.contain(`"${reason}"`)
        seen = records.length
      }
    }
  })

  it('for a secret is passed if the policy expects it of the tool, and on a call of no other', async () => {
    const [secret] = refused['credential_requested'] ?? []
    for (const [pattern, isPassed] of [
      ['mcp://asking/ask@*', true],
      ['mcp://asking/other@*', false],
    ] as const) {
      const protections = { server_requests: { expect: { [pattern]: ['credential'] } } }
      await using opened = await openRoute('one server', asking.urls.handshake, { protections })
      await using connected = await opened.connect('handshake', () => ({ action: 'decline' }))
      await connected.call(secret ?? requestOf.roots)
      expect(connected.asked.length > 0, pattern).to.equal(isPassed)
    }
  })

  it('is recorded and passed where the policy only reports', async () => {
    for (const sections of [
      { protections: { preset: 'observe' } },
      { protections: { preset: 'guard' }, enforcement: { mode: 'observe' } },
    ]) {
      await using opened = await openRoute('several servers', asking.urls.stateless, sections)
      await using connected = await opened.connect('stateless', () => ({ action: 'decline' }))
      expect(await connected.call(form('Enter your password'))).to.contain('decline')
      const found = opened.records().find(({ tool }) => tool === 'server_requests/elicitation_form@1')
      expect(JSON.stringify(found)).to.match(/"effect":"(?:reported|would_deny)"/)
      expect(found?.['policy']).to.include({ decision: 'allow' })
    }
  })

  for (const era of eras) {
    it(`gets no response of a ${era} client that does not fit its form`, async () => {
      await using opened = await openRoute('one server', asking.urls[era], policy)
      for (const [reply, isPassed] of [
        [{ action: 'accept', content: { branch: 'main' } }, true],
        [{ action: 'decline' }, true],
        [{ action: 'accept', content: { branch: 7 } }, false],
        [{ action: 'accept', content: {} }, false],
        [{ action: 'accept' }, false],
        [{ action: 'decline', content: { branch: 'main' } }, false],
      ] as const) {
        await using connected = await opened.connect(era, () => reply)
        const before = opened.records().length
        const result = await connected.call(requestOf.elicitation_form)
        const name = `${JSON.stringify(reply)}: ${result}`
        expect(result.includes(JSON.stringify(reply)), name).to.equal(isPassed)
        const records = JSON.stringify(opened.records().slice(before))
        expect(records.includes('"reply_invalid"'), name).to.equal(!isPassed)
      }
    })
  }

  it('on the stream of a session is judged as one on the stream of a call', async () => {
    await using opened = await openRoute('one server', asking.urls.handshake, policy)
    await using connected = await opened.connect('handshake', () => ({
      action: 'accept',
      content: { value: 'x' },
    }))
    expect(await asking.askOnStream(form('Enter your password'))).to.contain('refuses')
    expect(connected.asked).to.deep.equal([])
    expect(JSON.stringify(await asking.askOnStream(form('Which one?')))).to.contain('accept')
    expect(connected.asked).to.have.length(1)
  })

  it('of a command is judged as one of a server over HTTP', async () => {
    for (const [mode, tool] of [
      ['', 'ask'],
      ['stateless', 'input'],
    ] as const) {
      const target = scriptedTarget(mode, { isolate: 'session' })
      for (const elicitation_form of ['deny', 'record'] as const) {
        await using gateway = await startTestGateway({
          targets: { files: target },
          protections: { server_requests: { elicitation_form } },
        })
        await using connected = await connectAsked(
          `${gateway.url}/mcp`,
          'handshake',
          `files__${tool}`,
          () => ({
            action: 'decline',
          }),
        )
        const result = await connected.call(requestOf.roots)
        expect(connected.asked, `${tool}: ${result}`).to.have.length(elicitation_form === 'deny' ? 0 : 1)
        expect(result).to.match(elicitation_form === 'deny' ? /refuses|denied/ : /decline/)
      }
    }
  })

  it('is refused once a server has sent too many, with one record for all that follow', async () => {
    await using opened = await openRoute('one server', asking.urls.handshake, policy)
    await using connected = await opened.connect('handshake')
    for (let i = 0; i < 65; i++) await connected.call(requestOf.elicitation_form)
    expect(connected.asked).to.have.length(60)
    const flood = opened.records().filter((record) => JSON.stringify(record).includes('server_request_flood'))
    expect(flood).to.have.length(1)
  })
})
