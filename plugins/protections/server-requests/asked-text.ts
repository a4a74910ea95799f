// What an elicitation says to the user: whether it asks for a secret, or speaks as the gateway does. Rules on words cannot know
// what a user makes of a text; they are wide, and a tool that may ask for credentials is named in the policy.
import { isJsonObject, type JsonValue } from '@svc/core/json'
import { foldName, wordsOf } from '@svc/core/match'
import { isSecretName } from '@svc/core/pii'

/** Characters of all texts of an elicitation together. */
export const maxText = 8_192

/** In the form of `foldedText`. A phrase is looked for as whole words. */
const secretPhrases = [
  ...[
    'password',
    'passwd',
    'passphrase',
    'passcode',
    'passwords',
    'passphrases',
    'credentials',
    'credential',
  ],
  ...['api key', 'apikey', 'api keys', 'access key', 'private key', 'secret key', 'signing key', 'ssh key'],
  ...[
    'client secret',
    'api secret',
    'shared secret',
    'access token',
    'api token',
    'auth token',
    'bearer token',
  ],
  ...[
    'refresh token',
    'session token',
    'personal token',
    'bot token',
    'your token',
    'your secret',
    'session cookie',
  ],
  ...[
    'seed phrase',
    'recovery phrase',
    'recovery key',
    'recovery code',
    'mnemonic',
    'backup code',
    'backup codes',
  ],
  ...[
    'one time code',
    'one time password',
    'verification code',
    'security code',
    'otp',
    'totp',
    '2fa code',
    'mfa code',
  ],
  ...['pin code', 'pin number', 'your pin', 'card number', 'credit card', 'debit card', 'cvv', 'cvc', 'iban'],
  ...['social security', 'ssn', 'passport number', 'login details', 'login data', 'log in with your'],
  ...[
    'passwort',
    'kennwort',
    'zugangsdaten',
    'geheimzahl',
    'contrasena',
    'clave',
    'mot de passe',
    'identifiants',
  ],
  ...[
    'senha',
    'parola',
    'wachtwoord',
    'haslo',
    'lozinka',
    'losenord',
    'adgangskode',
    'salasana',
    'sifre',
    'пароль',
  ],
]
/** Scripts without spaces between words. */
const secretParts = [
  '密码',
  '密碼',
  '口令',
  '验证码',
  '驗證碼',
  'パスワード',
  '暗証番号',
  '비밀번호',
  '密钥',
  '密鑰',
]

/** How the gateway speaks of itself. */
const gatewayPhrases = [
  'svc gateway',
  'svc sdk',
  'policy gateway',
  'mcp gateway',
  'the gateway asks',
  'request of the server',
]

const notWord = /[^\p{L}\p{N}]+/gu
/** Letters of one word, set apart. */
const spaced = /(?<![\p{L}\p{N}])(?:[\p{L}\p{N}] ){3,}[\p{L}\p{N}](?![\p{L}\p{N}])/gu
/** Digits and letters of other scripts, and the Latin letters that they look like. */
const lookAlikes = new Map(
  [...'0o1i3e4a5s7tаaеeоoрpсcуyхxіiѕsјjкkтtвbнhмmαaεeοoρpτtιiκkνvυu'.matchAll(/(.)(.)/gu)].map(
    ([, other = '', latin = '']) => [other, latin],
  ),
)

export interface AskedText {
  /** What the user reads. */
  readonly texts: readonly string[]
  /** Names of the members that the user gives. */
  readonly names: readonly string[]
}

/** Every text and name of an elicitation's params. */
export function askedText(params: JsonValue): AskedText {
  const texts: string[] = []
  const names: string[] = []
  const pending: JsonValue[] = [params]
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    if (typeof value === 'string') texts.push(value)
    else if (Array.isArray(value)) pending.push(...value)
    else if (isJsonObject(value)) {
      const { properties } = value
      if (isJsonObject(properties)) names.push(...Object.keys(properties))
      pending.push(...Object.values(value))
    }
  }
  return { texts, names }
}

export function asksForSecret({ texts, names }: AskedText): boolean {
  if (
    names.some((name) => isSecretName(name) || hasPhrase(foldedText(wordsOf(name).join(' ')), secretPhrases))
  )
    return true
  return (
    texts.some((text) => readings(text).some((folded) => hasPhrase(folded, secretPhrases))) || hasPart(texts)
  )
}

/** Whether a text speaks as the gateway does, or names one of its addresses. */
export function imitatesGateway({ texts, names }: AskedText, own: readonly string[]): boolean {
  return [...texts, ...names].some((text) => {
    const plain = foldName(text)
    return (
      own.some((address) => plain.includes(address)) ||
      readings(text).some((folded) => hasPhrase(folded, gatewayPhrases))
    )
  })
}

function hasPart(texts: readonly string[]): boolean {
  return texts.some((text) => {
    const plain = foldName(text).replaceAll(/\s+/gu, '')
    return secretParts.some((part) => plain.includes(part))
  })
}

/** The text as it is, with the letters of spaced words together, and in the Latin letters that its characters look like. */
function readings(text: string): string[] {
  const plain = foldedText(text)
  const joined = plain.replaceAll(spaced, (word) => word.replaceAll(' ', ''))
  const lettered = joined.replaceAll(/./gu, (character) => lookAlikes.get(character) ?? character)
  return [plain, joined, lettered]
}

const marks = /\p{M}+/gu

/** Lower case, without marks and invisible characters, with one space between words and at both ends. */
function foldedText(text: string): string {
  const folded = foldName(text)
    .normalize('NFD')
    .replaceAll(marks, '')
    .replaceAll(/[@$]/g, (sign) => (sign === '@' ? 'a' : 's'))
  return ` ${folded.replaceAll(notWord, ' ')} `
}

function hasPhrase(folded: string, phrases: readonly string[]): boolean {
  return phrases.some((phrase) => folded.includes(` ${phrase} `))
}
