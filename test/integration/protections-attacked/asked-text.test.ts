// Attacks on the rules on elicitations: each way to ask for a secret, disguised in each way, in each place that a user reads;
// and URLs that one program reads in another way than another.
import {
  askedText,
  asksForSecret,
  imitatesGateway,
} from '@svc/plugin-protections/internal/server-requests/asked-text'
import { parseUrlHost, urlProblem } from '@svc/plugin-protections/internal/shared/url-hosts'
import { expect } from 'chai'

/** Words that other words contain: found between spaces alone. */
const short: readonly string[] = [
  'What is your PIN?',
  'Introduza a sua senha',
  'Podaj swoje hasło',
  'Zadejte heslo',
]

const questions: readonly string[] = [
  ...short,
  ...['Enter your password', 'Your API key, please', 'Paste the recovery phrase', 'Card number and CVV'],
  ...[
    'Bitte das Passwort eingeben',
    'Ihr Gmail-Kontopasswort?',
    'Entrez votre mot de passe',
    'Escriba su contraseña',
  ],
  ...['Voer uw wachtwoord in', 'Adja meg a jelszavát: jelszó'],
  ...[
    'Şifrenizi girin',
    'Ange ditt lösenord',
    'Skriv inn passordet ditt',
    'Anna salasanasi',
    'Masukkan kata sandi',
  ],
  ...[
    'Nhập mật khẩu',
    'Введите пароль',
    'ВВЕДИТЕ ПАРОЛЬ',
    'Εισάγετε τον κωδικό πρόσβασης: κωδικός πρόσβασης',
    'أدخل كلمة المرور',
  ],
  ...[
    'הזן סיסמה',
    'पासवर्ड दर्ज करें',
    'ใส่รหัสผ่าน',
    '请输入密码',
    'パスワードを入力',
    'ﾊﾟｽﾜｰﾄﾞ',
    '비밀번호를 입력하세요',
  ],
]

const full = (text: string): string =>
  text.replaceAll(/[!-~]/g, (character) => String.fromCharCode(character.charCodeAt(0) + 0xfee0))
const bold = (text: string): string =>
  text.replaceAll(/[a-z]/g, (letter) => String.fromCodePoint(0x1d41a + letter.charCodeAt(0) - 97))
const like = new Map(
  [...'aаeеoоpрcсyуxхiі'.matchAll(/(.)(.)/gu)].map(([, latin = '', other = '']) => [latin, other]),
)

/** Of any script, and of Latin letters alone. */
const disguises: Readonly<Record<string, (text: string) => string>> = {
  none: (text) => text,
  'upper case': (text) => text.toUpperCase(),
  'spaces between letters': (text) => [...text].join(' '),
  'signs between letters': (text) => [...text].join('-'),
  'zero-width spaces': (text) => [...text].join('\u200b'),
  'soft hyphens': (text) => [...text].join('\u00ad'),
  'line breaks': (text) => text.replaceAll(' ', '\n\n'),
  'no spaces': (text) => text.replaceAll(' ', ''),
  tags: (text) => [...text].join('<b></b>'),
  'character references': (text) => [...text].map((one) => `&#${one.codePointAt(0)};`).join(''),
  'percent escapes': (text) => encodeURIComponent(text),
  base64: (text) => Buffer.from(`${text} .........`).toString('base64'),
  'the other direction': (text) => `\u202e${[...text].reverse().join('')}`,
  decomposed: (text) => text.normalize('NFD'),
}
const latinDisguises: typeof disguises = {
  'full width': full,
  bold,
  'letters of Cyrillic': (text) => [...text].map((letter) => like.get(letter) ?? letter).join(''),
  'digits for letters': (text) =>
    text.replaceAll(/[oieast]/g, (letter) => '013457'['oieast'.indexOf(letter)] ?? letter),
  accents: (text) => text.replaceAll(/[aeiou]/g, '$&\u0301\u0323'),
}

/** Of these no words are left. */
const joining: readonly string[] = ['no spaces', 'spaces between letters', 'signs between letters', 'tags']

const places: Readonly<Record<string, (text: string) => object>> = {
  'the message': (message) => ({ message }),
  'a title': (title) => ({ message: '', requestedSchema: { properties: { a: { title } } } }),
  'a description': (description) => ({ requestedSchema: { properties: { a: { description } } } }),
  'a name': (name) => ({ requestedSchema: { properties: { [name]: {} } } }),
  'a choice': (title) => ({ requestedSchema: { properties: { a: { oneOf: [{ const: 'a', title }] } } } }),
  'the name of a choice': (name) => ({ requestedSchema: { properties: { a: { enumNames: [name] } } } }),
  'a default': (value) => ({ requestedSchema: { properties: { a: { default: value } } } }),
  'a title of the form': (title) => ({ requestedSchema: { title, properties: {} } }),
  'a URL': (text) => ({ mode: 'url', url: `https://a.example/?q=${text}` }),
  'an unknown member': (text) => ({ more: [{ text }] }),
}

/** What servers ask without harm. */
const harmless: readonly string[] = [
  ...[
    'Which branch?',
    'Select the pinned items to keep',
    'How many tokens should the summary have?',
    'Sort by which key?',
  ],
  ...[
    'Delete the key "a" from the table?',
    'Your name and your email address',
    'Choose a project for the compass app',
  ],
  ...[
    'Your pinned repositories',
    'What is the name of the author?',
    'Enter the shipping address',
    'A short description of the bug',
  ],
  ...[
    'Wie heißt das Projekt?',
    'Quel est le nom du dépôt ?',
    'Какая ветка?',
    '选择一个分支',
    'ブランチ名は何ですか',
    'Welche Farbe passt?',
  ],
  ...[
    'Pick a time for the meeting: 10:30 or 14:45',
    'Is the issue 4711 a duplicate?',
    'Continue with the deployment to production?',
  ],
]

describe('an elicitation that is made to look harmless', () => {
  it('is found to ask for a secret, however and wherever it does', () => {
    const missed: string[] = []
    for (const [index, question] of questions.entries()) {
      const isLatin = /^[\x20-\x7e]+$/.test(question)
      for (const [disguise, dressed] of Object.entries({
        ...disguises,
        ...(isLatin ? latinDisguises : {}),
      })) {
        if (short.includes(question) && joining.includes(disguise)) continue
        for (const [place, paramsOf] of Object.entries(places)) {
          if (index > 7 && disguise !== 'none' && place !== 'the message') continue
          const params = paramsOf(dressed(question))
          if (!asksForSecret(askedText(params as never))) missed.push(`${question}: ${disguise}, in ${place}`)
        }
      }
    }
    expect(missed).to.deep.equal([])
  })

  it('is found to speak as the gateway, or of its address', () => {
    const own = ['gw.example:8443']
    const texts = [
      'The policy gateway needs you to confirm',
      'Request of the server "bank"',
      'Open https://gw.example:8443/x',
      'Go to gw [.] example : 8443',
    ]
    const missed: string[] = []
    for (const text of texts) {
      for (const [disguise, dressed] of Object.entries({ ...disguises, ...latinDisguises }))
        if (
          (disguise !== 'digits for letters' || !text.includes('8443')) &&
          !imitatesGateway({ texts: [dressed(text)], names: [] }, own)
        )
          missed.push(`${text}: ${disguise}`)
    }
    expect(missed).to.deep.equal([])
  })

  it('is passed if it is harmless', () => {
    for (const message of harmless) {
      const text = askedText({ message })
      expect(asksForSecret(text) || imitatesGateway(text, ['gw.example:8443']), message).to.equal(false)
    }
  })

  it('has a URL that every program reads as one of a host on the list', () => {
    const allowed = [
      'accounts.good.example',
      '*.good.example',
      'good.example:8443',
      '[2001:db8::1]',
      'bücher.example',
    ].flatMap((host) => parseUrlHost(host) ?? [])
    const good = [
      ...[
        'https://accounts.good.example/',
        'https://ACCOUNTS.good.example/a?b#c',
        'https://a.b.good.example',
        'https://good.example:8443/x',
      ],
      ...[
        'https://[2001:db8::1]/',
        'https://xn--bcher-kva.example/',
        'https://bücher.example/',
        'https://accounts.good.example./',
      ],
    ]
    const bad = [
      ...[
        'http://accounts.good.example/',
        'https://good.example/',
        'https://evil.example/',
        'https://good.example.evil.example/',
      ],
      ...[
        'https://accounts.good.example@evil.example/',
        'https://u:p@accounts.good.example/',
        'https://evil.example\\@accounts.good.example/',
      ],
      ...[
        'https://accounts.good.example\\@evil.example/',
        'https://accounts.good.example\\.evil.example/',
        'https:accounts.good.example/',
      ],
      ...[
        'https:/accounts.good.example/',
        'https:\\\\accounts.good.example/',
        ' https://accounts.good.example/',
        'https://accounts.good.example/\n',
      ],
      ...[
        'ht\ntps://accounts.good.example/',
        'https://acc\tounts.good.example/',
        'https://accounts.good.example:99999/',
        'https:///accounts.good.example/',
      ],
      ...[
        'https://accounts.good.example%2eevil.example/',
        'https://accounts.good.example%00.evil.example/',
        'https://accounts。evil。example/',
      ],
      ...[
        'https://accounts.good.example:444/',
        'https://evil.example#@accounts.good.example/',
        'https://evil.example?@accounts.good.example/',
      ],
      ...[
        'javascript:alert(1)//https://accounts.good.example/',
        'data:text/html,https://accounts.good.example/',
        'https://2001:db8::1/',
      ],
      ...[
        'https://accounts.good.example../',
        'https://accounts.good.exаmple/',
        'HTTPS://evil.example/',
        '//accounts.good.example/',
        '',
        'https://',
      ],
      ...[
        'https://accounts.good.example/\u202emoc.live',
        'https://accounts.good.example:@evil.example/',
        'blob:https://accounts.good.example/x',
      ],
    ]
    expect(good.filter((url) => urlProblem(url, allowed) !== undefined)).to.deep.equal([])
    expect(bad.filter((url) => urlProblem(url, allowed) === undefined)).to.deep.equal([])
    for (const url of [7, null, ['https://accounts.good.example/'], {}])
      expect(urlProblem(url, allowed)).to.be.a('string')
  })
})
