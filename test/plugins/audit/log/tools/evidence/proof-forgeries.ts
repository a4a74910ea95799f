// The text of a proof, and the text of the data that has the proofs.

import { data, dataOf, type Forgery, forgedLine, nextDigit, ORIGIN, pageOfLines } from './forged-lines.js'

/** The text of a proof. */
export function* proofForgeries(): Generator<Forgery, void, void> {
  const [one, two] = [forgedLine(), forgedLine()]
  const page = pageOfLines([one, two, forgedLine()])
  const note = (change: (note: string) => string) => (proof: string) => {
    const end = proof.indexOf('\n\n') + 2
    return proof.slice(0, end) + change(proof.slice(end))
  }
  const size = (text: string) => note((all) => all.replace('\n3\n', `\n${text}\n`))
  const origin = (text: string) => note((all) => all.replaceAll(ORIGIN, text))
  const signature = (proof: string) => /\u2014 .*\n$/.exec(proof)?.[0] ?? ''
  const bad: Record<string, (proof: string) => string> = {
    'another version': (proof) => proof.replace('v1', 'v2'),
    'a space after its version': (proof) => proof.replace('v1', 'v1 '),
    'a byte order mark': (proof) => `\ufeff${proof}`,
    'line ends of Windows': (proof) => proof.replaceAll('\n', '\r\n'),
    'no empty line': (proof) => proof.replace('\n\n', '\n'),
    'two empty lines': (proof) => proof.replace('\n\n', '\n\n\n'),
    'text after it': (proof) => `${proof}\n`,
    'no newline at its end': (proof) => proof.slice(0, -1),
    'itself twice': (proof) => proof + proof,
    'no extra part': (proof) => proof.replace(/extra .*\n/, ''),
    'an empty extra part': (proof) => proof.replace(/extra .*\n/, 'extra \n'),
    'a tab before its record': (proof) => proof.replace('extra ', 'extra\t'),
    'a record with a space': (proof) => proof.replace('extra ', 'extra  '),
    'a record without padding': (proof) =>
      proof.replace(/(extra .*?)=+\n/, '$1\n').replace(/(extra .*?[^=])\nindex/, '$1A\nindex'),
    'a record in base64url': (proof) => proof.replace(/^extra e/m, 'extra _'),
    'a record with other last bits': (proof) =>
      proof
        .replace(/^(extra .*)(.)(=+)$/m, (_, a, b, c) => a + nextDigit(b) + c)
        .replace(/^extra ([^=]*)$/m, 'extra $1=='),
    'no index': (proof) => proof.replace(/index .*\n/, ''),
    'a leading zero': (proof) => proof.replace('index ', 'index 0'),
    'a sign': (proof) => proof.replace('index ', 'index +'),
    'an exponent': (proof) => proof.replace(/index (\d)/, 'index $1e0'),
    'another index': (proof) => proof.replace(/index \d/, 'index 2'),
    'an index beyond the log': (proof) => proof.replace(/index \d/, 'index 3'),
    'an index beyond doubles': (proof) => proof.replace(/index \d/, 'index 9007199254740993'),
    'an index of Arabic digits': (proof) => proof.replace(/index \d/, 'index ١'),
    'a hash less': (proof) => proof.replace(/(index .*\n).*\n/, '$1'),
    'a hash more': (proof) => proof.replace(/(index .*\n)(.*\n)/, '$1$2$2'),
    'hashes in another order': (proof) => proof.replace(/(index .*\n)(.*\n)(.*\n)/, '$1$3$2'),
    'a hash without padding': (proof) => proof.replace(/(index .*\n.*)=\n/, '$1\n'),
    'a hash of 31 bytes': (proof) =>
      proof.replace(/(index .*\n).*\n/, `$1${Buffer.alloc(31).toString('base64')}\n`),
    'another size': size('4'),
    'a size with a zero': size('03'),
    'a size with a sign': size('+3'),
    'a size with an exponent': size('3e0'),
    'a size of nothing': size('0'),
    'another log': origin('svc-audit.invalid/other'),
    'a log with a space': origin('svc-audit.invalid/a b'),
    'a log with a plus': origin('svc-audit.invalid/a+b'),
    'a log with a control character': origin('svc-audit.invalid/a\u0085b'),
    'a log that shows nothing': origin('svc-audit.invalid/\u200b'),
    'a log that looks green': origin('svc-audit.invalid/\u001b[32mproven'),
    'an extension line': note((all) => all.replace('\n\n', '\nextension\n\n')),
    'another root': note((all) => all.replace(/\n3\n(.)/, (_, first) => `\n3\n${nextDigit(first)}`)),
    'no signature': note((all) => all.slice(0, all.indexOf('\u2014'))),
    'an empty signature': note((all) => `${all.slice(0, all.indexOf('\u2014'))}\u2014 ${ORIGIN} \n`),
    'a hyphen before its signature': note((all) => all.replace('\u2014', '-')),
    'an en dash before its signature': note((all) => all.replace('\u2014', '\u2013')),
    'a signature line more that is not one': note((all) => `${all}hello\n`),
    'a wrong signature of the same key': (proof) =>
      proof + signature(proof).replace(/.{8}==\n|.{8}=\n|.{8}\n$/, (end) => `AAAAAAA${end.slice(7)}`),
    'seventeen signatures': (proof) => proof + other.repeat(16),
    'a wide space before its signature': note((all) => all.replace('\u2014 ', '\u2014\u3000')),
    'a signature that is short': note((all) =>
      all.replace(/(\u2014 \S+ ).*/, `$1${Buffer.alloc(40).toString('base64')}`),
    ),
  }
  const good: Record<string, (proof: string) => string> = {
    'the signature twice': (proof) => proof + signature(proof),
    'a signature of another name': (proof) => proof + other,
    'sixteen signatures': (proof) => proof + other.repeat(15),
    'a signature of another key under its name': (proof) => proof + other.replace('witness.example', ORIGIN),
  }
  for (const [rows, found] of [
    [bad, ['records 1']],
    [good, []],
  ] as const)
    for (const [title, change] of Object.entries(rows))
      yield {
        title: `a proof with ${title}`,
        page: data(page, (of) => (of.records[0] = change(of.records[0] ?? ''))),
        found,
      }
}

const other = `\u2014 witness.example ${Buffer.alloc(76, 1).toString('base64')}\n`

/** The text of the data, which is refused as a whole unless it is written as svc-sdk writes it. */
export function* dataForgeries(): Generator<Forgery, void, void> {
  const page = pageOfLines([forgedLine()], { tenant: 'acme' })
  const text = (change: (text: string) => string) => page.replace(dataOf(page), () => change(dataOf(page)))
  const bad: Record<string, string> = {
    nothing: text(() => ''),
    'an array': text((all) => `[${all}]`),
    null: text(() => 'null'),
    'a text': text(() => '""'),
    'white space after it': text((all) => `${all} `),
    'a newline before it': text((all) => `\n${all}`),
    'a byte order mark': text((all) => `\ufeff${all}`),
    'a NUL in a text': text((all) => all.replace('a test', 'a\0test')),
    'the character of a replaced byte': text((all) => all.replace('a test', 'a\ufffdtest')),
    'a NUL before it': text((all) => `\0${all}`),
    'a comma more': text((all) => all.replace('}', ',}')),
    'a comment': text((all) => all.replace('{', '{/**/')),
    'a single quote': text((all) => all.replaceAll('"acme"', "'acme'")),
    'a member twice': text((all) => all.replace('"made_by"', '"made_by":"x","made_by"')),
    'a filter twice': text((all) => all.replace('"filter"', '"filter":{"tenant":"beta"},"filter"')),
    'a list twice': text((all) => all.replace(/}$/, ',"records":[]}')),
    'a member by an escape': text((all) => all.replace('"more"', '"\\u006dore"')),
    'a prototype': text((all) => all.replace('{', '{"__proto__":{},')),
    'a prototype in its filter': text((all) => all.replace('"filter":{', '"filter":{"__proto__":"x",')),
    'a member of objects in its filter': text((all) =>
      all.replace('"filter":{', '"filter":{"constructor":"x",'),
    ),
    'a filter that is an array': text((all) => all.replace(/"filter":\{.*?\}/, '"filter":[]')),
    'a filter that is null': text((all) => all.replace(/"filter":\{.*?\}/, '"filter":null')),
    'a filter with a number': text((all) => all.replace('"tenant":"acme"', '"tenant":1')),
    'a filter with null': text((all) => all.replace('"tenant":"acme"', '"tenant":null')),
    'a limit in its filter': text((all) => all.replace('"tenant":"acme"', '"limit":"1"')),
    'records that are an object': text((all) =>
      all.replace(/"records":\[(.*?)\]/, '"records":{"0":$1,"length":1}'),
    ),
    'a record that is a list': text((all) => all.replace(/"records":\[(.*?)\]/, '"records":[[$1]]')),
    'definitions that are a text': text((all) => all.replace('"definitions":[]', '"definitions":""')),
    'a surrogate': text((all) => all.replace('a test', 'a \\ud800 test')),
    'more beyond doubles': text((all) => all.replace('"more":0', '"more":9007199254740993')),
    'depth over 512': text((all) => all.replace('"more":0', `"more":${'['.repeat(600)}${']'.repeat(600)}`)),
    'depth over 20,000': text((all) =>
      all.replace('"more":0', `"more":${'['.repeat(20_000)}${']'.repeat(20_000)}`),
    ),
    'a raw line separator': text((all) => all.replace('a test', 'a\u2028test')),
    'an escaped ampersand in capital letters': text((all) => all.replace('a test', 'a \\u002F test')),
    'a raw ampersand': text((all) => all.replace('a test', 'a & test')),
    'a raw greater than': text((all) => all.replace('a test', 'a > test')),
    'evidence as a text': text((all) => all.replace('"evidence":1', '"evidence":"1"')),
    'evidence as 1.0': text((all) => all.replace('"evidence":1', '"evidence":1.0')),
  }
  for (const more of ['-1', '-0', '0.5', '1e2', '1.0', '"0"', 'null', 'true', '[0]', '1e400', '00'])
    bad[`more ${more}`] = text((all) => all.replace('"more":0', `"more":${more}`))
  for (const [title, changed] of Object.entries(bad))
    yield { title: `data with ${title}`, page: changed, found: ['page'] }
  const good: Record<string, string> = {
    'other statements of its maker': data(page, (of) =>
      Object.assign(of, { more: 9007199254740991, made_at: '', made_by: '<&>\u2028 proven ✅' }),
    ),
    'an escaped character of a replaced byte': data(page, (of) => (of['made_by'] = 'a\ufffdtest')),
  }
  for (const [title, changed] of Object.entries(good))
    yield { title: `data with ${title}`, page: changed, found: [] }
}
