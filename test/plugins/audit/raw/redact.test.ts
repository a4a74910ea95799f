import { redact } from '@svc/plugin-audit/internal/raw/redact'
import { expect } from 'chai'
import { cpuTimeOf } from '../../../support/cpu-time.js'

const jwt = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl'

describe('redact', () => {
  for (const [title, text, clean] of [
    // By form.
    ['a JWT', `see ${jwt} now`, 'see [redacted:token] now'],
    ['a JWT that was cut off', `see ${jwt.slice(0, 30)}`, 'see [redacted:token]'],
    ['bearer credentials', 'curl -H "X: Bearer abcdefgh12345678"', 'curl -H "X: [redacted:credential]"'],
    ['credentials in a URL', 'postgres://ann:pw1@db/x', 'postgres://[redacted:credential]@db/x'],
    ['an AWS key id', 'AKIAIOSFODNN7EXAMPLE.', '[redacted:aws_key].'],
    ['a GitHub token', `x ghp_${'a1B2'.repeat(9)} y`, 'x [redacted:github_token] y'],
    ['a Slack token', `xoxb-${'1234567890'.repeat(2)}`, '[redacted:slack_token]'],
    ['a Stripe key', `sk_live_${'a1B2'.repeat(6)}`, '[redacted:stripe_key]'],
    ['an sk- key', `sk-proj-${'a1B2'.repeat(6)}`, '[redacted:api_key]'],
    ['a Google key', `AIza${'a'.repeat(35)}`, '[redacted:google_key]'],
    ['a key of the control plane', `svck_${'a'.repeat(43)}`, '[redacted:api_key]'],
    ['an email address', 'to ann.b+c@mail.example.com, please', 'to [redacted:email], please'],
    ['a card number', 'card 4111 1111 1111 1111!', 'card [redacted:card]!'],
    ['a card number with a wrong digit: none', 'card 4111 1111 1111 1112', 'card 4111 1111 1111 1112'],
    ['an IBAN', 'DE89 3704 0044 0532 0130 00', '[redacted:iban]'],
    ['an IBAN with a wrong digit: none', 'DE88370400440532013000', 'DE88370400440532013000'],
    ['a US social security number', 'ssn 078-05-1120', 'ssn [redacted:ssn]'],
    ['an international phone number', 'call +44 20 7946 0958.', 'call [redacted:phone].'],
    ['a US phone number', 'call (555) 010-9999.', 'call [redacted:phone].'],
    [
      'a private key',
      'a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b',
      'a [redacted:private_key] b',
    ],
    ['a private key that was cut off', 'a -----BEGIN PRIVATE KEY-----\nMIIE', 'a [redacted:private_key]'],
    // By name.
    ['a member', '{"password":"hun\\"ter2","user":"ann"}', '{"password":"[redacted]","user":"ann"}'],
    ['a member in camel case', '{"apiKey": "x"}', '{"apiKey": "[redacted]"}'],
    ['a member that is a number', '{"pin":1234,"n":1}', '{"pin":"[redacted]","n":1}'],
    ['a member that holds members', '{"secrets":{"a":["}",1]},"n":1}', '{"secrets":"[redacted]","n":1}'],
    ['a member that was cut off', '{"client_secret":"abc', '{"client_secret":"[redacted]"'],
    [
      'a member of JSON inside a JSON string',
      '{"text":"{\\"token\\":\\"a\\\\\\"b\\",\\"n\\":1}"}',
      '{"text":"{\\"token\\":\\"[redacted]\\",\\"n\\":1}"}',
    ],
    ['a variable', 'AWS_SECRET_ACCESS_KEY=abc/def+1 next', 'AWS_SECRET_ACCESS_KEY=[redacted] next'],
    [
      'a parameter of a URL',
      'https://x.example/?a=1&access_token=q&b=2',
      'https://x.example/?a=1&access_token=[redacted]&b=2',
    ],
    ['a line of prose', 'the password: swordfish', 'the password: [redacted]'],
    ['a quoted value', 'DB_PASSWORD="sword fish" next', 'DB_PASSWORD="[redacted]" next'],
    ['a value in apostrophes', "password: 'sword fish', next", "password: '[redacted]', next"],
    ['a quoted value inside a JSON string', '{"c":"TOKEN=\\"a b\\" x"}', '{"c":"TOKEN=\\"[redacted]\\" x"}'],
    ['a quoted value that was cut off', '{"c":"TOKEN=\\"a b', '{"c":"TOKEN=\\"[redacted]'],
    ['an option of a command', 'mysql --password=openup -h x', 'mysql --password=[redacted] -h x'],
    ['an option and its value', 'cli --api-key openup --verbose', 'cli --api-key [redacted] --verbose'],
    ["a command's user", 'curl -u admin:topsecret http://h', 'curl -u [redacted:credential] http://h'],
    ['a header line', 'Cookie: a=b; c=d\nHost: x', 'Cookie: [redacted]\nHost: x'],
  ] as const) {
    it(title, () => expect(redact(text)).to.equal(clean))
  }

  for (const text of [
    '{"max_tokens":100,"keyboard":"de","monkey":"x","author":"Jo","passenger":2}',
    '{"password":null,"token":true}',
    '{"q":"password=","n":1}',
    'cli --secret --verbose',
    '{"ts":1763690000123,"id":"0af7651916cd43dd8448eb211c80319c"}',
    '2026-11-21T10:00:00.000Z 550e8400-e29b-41d4-a716-446655440000',
    'version 1.2.3, 10.0.0.1, 3.14159265358979312',
  ]) {
    it(`leaves ${text} as it is`, () => expect(redact(text)).to.equal(text))
  }

  it('takes time in proportion to the text, whatever a stranger writes', async () => {
    const hostile = [
      'a',
      '1',
      'a.',
      'a@',
      '"',
      '\\"',
      '"token":',
      '"a":[',
      '-----BEGIN PRIVATE KEY-----',
      '+1 ',
      'x=',
      'token=',
      'token="',
      "token='",
      'token=\\"',
      '--token ',
      '-u a',
      '4-',
      'eyJ-',
      '://a:',
      'DE89 ',
    ]
    const taken = await cpuTimeOf(() => {
      for (const piece of hostile) redact(piece.repeat(Math.ceil(100_000 / piece.length)))
    })
    // Quadratic, one of these alone would take many seconds.
    expect(taken).to.be.below(5_000)
  })
})
