// Whether the text of an elicitation asks the user for a secret, or speaks as the gateway does. Rules on words cannot know how
// a user understands a text; they are wide, and a tool that may ask for credentials is named in the policy.
import { isJsonObject, type JsonValue } from '@svc/core/json'
import { foldName, wordsOf } from '@svc/core/match'
import { isSecretName } from '@svc/core/pii'
import { decodedParts } from '../text/layers.js'
import { letterOf, letterOfPair, SKIPPED } from '../text/letters.js'
import { PhraseMatcher, parsePhrase } from '../text/phrases.js'

/** Characters of all texts of an elicitation together. */
export const maxText = 8_192

/** Looked for in the letters of a text alone, so that spaces, signs and compounds hide none. */
const secretParts = partsOf(`
  password, passwd, passphrase, passcode, credential, api key, access key, private key, secret key, signing key, ssh key,
  client secret, api secret, shared secret, access token, api token, auth token, bearer token, refresh token, session token,
  personal token, bot token, session cookie, seed phrase, recovery phrase, recovery key, recovery code, backup code, mnemonic,
  one time code, verification code, security code, mfa code, pin code, pin number, card number, credit card, debit card,
  social security, passport number, login details, login data, log in with your,
  passwort, kennwort, zugangsdaten, geheimzahl, geheimnummer, kreditkarte, bestätigungscode, sicherheitscode, contraseña,
  código de verificación, número de tarjeta, mot de passe, code de vérification, code secret, carte bancaire, identifiants de,
  palavra passe, parola d'ordine, código de verificação, wachtwoord, inloggegevens, passord, lösenord, adgangskode, salasana,
  jelszó, lozinka, slaptažod, şifreniz, kata sandi, kata laluan, mật khẩu, пароль, парола, код подтверждения, κωδικός πρόσβασης,
  पासवर्ड, รหัสผ่าน, كلمة المرور, كلمة السر, סיסמה, סיסמא, 密码, 密碼, 口令, 验证码, 驗證碼, 密钥, 密鑰, パスワード, 暗証番号, 비밀번호`)

/** Whole words: shorter ones, which others contain. */
const secretWords = new PhraseMatcher(
  [
    ...[
      'your|the|a token|tokens',
      'your secret|secrets',
      'your pin',
      'otp|totp|cvv|cvc|cvv2|iban|ssn',
      '2fa code*',
    ],
    ...['clave*|senha*|haslo*|hasla|heslo*|hesla|parola|parool*|sifre*|identifiants'],
  ].map(parsePhrase),
)

/** How the gateway speaks of itself. */
const gatewayParts = partsOf(
  'svc gateway, svc sdk, policy gateway, mcp gateway, the gateway asks, request of the server',
)
/** Addresses with fewer letters are looked for as they are written alone. */
const minLetters = 8

export interface AskedText {
  /** The texts that the user reads. */
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
  return (
    names.some(isSecretName) ||
    [...texts, ...names, ...names.map((name) => wordsOf(name).join(' '))]
      .flatMap(readings)
      .some((text) => hasPart(text, secretParts) || secretWords.find(text).length > 0)
  )
}

/** Whether a text speaks as the gateway does, or names one of its addresses. */
export function imitatesGateway({ texts, names }: AskedText, own: readonly string[]): boolean {
  const parts = [...gatewayParts, ...own.map(lettersOf).filter((letters) => letters.length >= minLetters)]
  return [...texts, ...names].flatMap(readings).some((text) => {
    const plain = foldName(text)
    return own.some((address) => plain.includes(address)) || hasPart(text, parts)
  })
}

/** The text as a user may read it: decoded, without tags, and in the other direction if it turns around. */
function readings(text: string): string[] {
  const decoded = [text, ...decodedParts(text).parts.map((part) => part.text)]
  const plain = decoded.map((one) => one.replaceAll(/<[^<>]{0,200}>/g, ''))
  const turned = decoded.filter((one) => one.includes('\u202e')).map((one) => [...one].reverse().join(''))
  return [...new Set([...decoded, ...plain, ...turned].map((one) => one.replaceAll(/\s+/g, ' ')))]
}

function hasPart(text: string, parts: readonly string[]): boolean {
  const letters = lettersOf(text)
  const spelled = letters.replaceAll(/[013457]/g, (digit) => 'oi_eas_t'[Number(digit)] ?? digit)
  return parts.some((part) => letters.includes(part) || spelled.includes(part))
}

/** The letters and digits alone, without marks, each as the one that it looks like. */
function lettersOf(text: string): string {
  const plain = text.toLowerCase().normalize('NFKD').replaceAll(/\p{M}/gu, '').replaceAll(/[@$!]/g, signs)
  let letters = ''
  for (let index = 0; index < plain.length; index++) {
    const unit = plain.charCodeAt(index)
    const isPair = unit >= 0xd800 && unit < 0xdc00
    const letter = isPair ? letterOfPair(unit, plain.charCodeAt(++index)) : letterOf(unit)
    if (letter > SKIPPED) letters += String.fromCharCode(letter)
  }
  return letters
}

function signs(sign: string): string {
  return sign === '@' ? 'a' : sign === '$' ? 's' : 'i'
}

function partsOf(list: string): readonly string[] {
  return list.split(',').map(lettersOf)
}
