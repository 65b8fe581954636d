/** Texts one click away: what people try first, and what trips speech synthesis. */
export const SAMPLES = [
  ["Greeting", "Hello! It is good to hear from you. What shall we do today?"],
  ["Numbers", "The meeting on 3 March 2027 starts at 9:45, costs $1,250.50 and takes 2.5 hours."],
  ["Names", "Siobhan Nguyen from Łódź met Dr. Xavier Ó Briain and Aoife MacLeod in Reykjavík."],
  [
    "Paragraph",
    "Every voice has a rhythm of its own, and a good player never lets you hear the machinery behind it. " +
      "When the network stalls, it waits for just long enough, and then carries on as if nothing had happened. " +
      "When you interrupt, it stops at once, and it knows to the millisecond how much you heard.",
  ],
  ["Question", "If you could ask the sea one question, would you really want to hear the answer?"],
  ["Deutsch", "Guten Tag! Die Straßenbahn fährt um halb neun, und das Frühstück ist schon fertig."],
];
